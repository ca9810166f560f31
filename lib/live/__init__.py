"""Runs on the local device: chat, measurements, the heartbeat, and facts about the machine."""
