"""Will this machine, container and fleet let the job run? Probes read the host; nothing is changed."""
