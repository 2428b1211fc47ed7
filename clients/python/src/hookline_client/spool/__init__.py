"""Events on disk until they are acknowledged: a directory, a folder per process, files of lines."""
