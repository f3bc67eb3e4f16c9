"""synchronization: what it costs a loop to wait for the device, and which wait costs what."""
