"""The Python interface: runs and studies as objects, on top of all other packages."""
