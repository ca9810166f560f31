"""Runs on the local device: chat, measurements, the heartbeat, and what they need to know about the machine."""
