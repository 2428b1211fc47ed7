"""What ``hookline doctor`` looks at: one module per part of an installation, each yields findings."""
