"""allocation: creating a tensor on the host and moving it, against creating it on the device."""
