"""What will be built: source, patches, flags, Dockerfile, lock, and the key of it all."""
