"""What the learning engine runs on: device, memory, threads, random numbers."""
