"""The journal of one machine: segment files in the data folder, one appending process, any number of readers."""
