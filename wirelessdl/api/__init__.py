"""What `import wirelessdl` offers: runs and studies as Python objects, on top of all other packages."""
