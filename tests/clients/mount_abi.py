"""The ioctl ABI of include/hipfile_fuse.h with Python's standard library, nothing else."""
import fcntl
import struct

VERSION = 1
READ, WRITE = 0, 1
BY_IPC, BY_FD, ATTACH = 1, 2, 3
FOR_PROCESS = 1
TEE, TAG_WRITE = 1, 2


def ioc(direction, number, size):
    return direction << 30 | size << 16 | ord("H") << 8 | number


# struct layouts, in the native byte order
INFO = "=IIIIiIQQII8Q128s256s4096s"
REGISTER = "=IIIiiIQQQQ64s8Q"
UNREGISTER = "=IIQ4Q"
IO = "=IIIIQQQQqII4Q"
BATCH, ENTRY = "=IIII6Q", "=IIQQQQqIIQ"
TAG = "=IIQQQQ4Q"
UNTAG = "=IIQQQQII4Q"


def call(fd, direction, number, layout, *fields):
    data = bytearray(struct.pack(layout, *fields))
    fcntl.ioctl(fd, ioc(direction, number, len(data)), data, True)
    return struct.unpack(layout, data)


def info(fd):
    return call(fd, 3, 1, INFO, VERSION, *[0] * 9, *[0] * 8, b"", b"", b"")


def register(fd, memory_fd, length, flags=0, offset=0):
    out = call(fd, 3, 2, REGISTER, VERSION, BY_FD, flags, 0, memory_fd, 0, 0, offset, length, 0, b"", *[0] * 8)
    return out[9]


def register_handle(fd, handle, length, flags=0, offset=0):
    """Of the memory behind a HIP IPC handle."""
    out = call(fd, 3, 2, REGISTER, VERSION, BY_IPC, flags, 0, -1, 0, 0, offset, length, 0, handle, *[0] * 8)
    return out[9]


def attach(fd, buffer):
    call(fd, 3, 2, REGISTER, VERSION, ATTACH, 0, 0, -1, 0, 0, 0, 0, buffer, b"", *[0] * 8)


def unregister(fd, buffer):
    call(fd, 1, 3, UNREGISTER, VERSION, 0, buffer, *[0] * 4)


def io(fd, op, buffer, buffer_offset, file_offset, length):
    """(result, route, reason)"""
    out = call(fd, 3, 4, IO, VERSION, 0, op, 0, buffer, buffer_offset, file_offset, length, 0, 0, 0, *[0] * 4)
    return out[8], out[9], out[10]


def batch(fd, entries):
    """entries: (op, buffer, buffer_offset, file_offset, length); gives (result, route, reason) of each"""
    data = bytearray(struct.pack(BATCH, VERSION, len(entries), 0, 0, *[0] * 6))
    for op, buffer, buffer_offset, file_offset, length in entries:
        data += struct.pack(ENTRY, op, 0, buffer, buffer_offset, file_offset, length, 0, 0, 0, 0)
    fcntl.ioctl(fd, ioc(3, 5, len(data)), data, True)
    size = struct.calcsize(ENTRY)
    return [struct.unpack_from(ENTRY, data, struct.calcsize(BATCH) + i * size)[6:9] for i in range(len(entries))]


def tag(fd, buffer, buffer_offset, file_offset, length, flags=0):
    call(fd, 1, 6, TAG, VERSION, flags, buffer, buffer_offset, file_offset, length, *[0] * 4)


def untag(fd):
    """(bytes read, bytes written, requests, failures)"""
    return call(fd, 3, 7, UNTAG, VERSION, *[0] * 7, *[0] * 4)[2:6]
