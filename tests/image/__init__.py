"""What the Dockerfile says, done in a fresh root of Debian: `tests/soak_image.py`.

No container runtime is needed, but root, `debootstrap` and `unshare`. `dockerfile` and `context`
read, `root` runs commands in a folder as if it were the system, `build` follows the instructions.
"""
