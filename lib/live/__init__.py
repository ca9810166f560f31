"""What runs on the device at hand: chat, measurements, the heartbeat, and what they need to know about the machine."""
