"""damage.py PATTERN OFFSET: flips the bits of one byte of the one file that the pattern names."""
import glob
import pathlib
import sys

file, = glob.glob(sys.argv[1])
data = bytearray(pathlib.Path(file).read_bytes())
data[int(sys.argv[2])] ^= 255
pathlib.Path(file).write_bytes(data)
