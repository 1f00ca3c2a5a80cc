#!/usr/bin/env python3
"""A tool that knows hipfile-fuse only by its ioctl ABI: Python's standard library, nothing else.

usage: legacy_tool.py HIPFILE_FUSE      mounts a directory of its own and tries everything; exit 77 = skipped
"""
import errno
import fcntl
import mmap
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

VERSION = 1
READ, WRITE = 0, 1
BY_FD, ATTACH = 2, 3
FOR_PROCESS = 1
TEE, TAG_WRITE = 1, 2


def ioc(direction, number, size):
    return direction << 30 | size << 16 | ord("H") << 8 | number


# struct layouts of include/hipfile_fuse.h, in the native byte order
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


class Memory:
    """What stands for device memory here: a memfd that the daemon maps."""

    def __init__(self, size):
        self.fd = os.memfd_create("device")
        os.ftruncate(self.fd, size)
        self.bytes = mmap.mmap(self.fd, size)

    def close(self):
        self.bytes.close()
        os.close(self.fd)


class LegacyTool(unittest.TestCase):
    program = None

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory(dir="/var/tmp", prefix="hipfile_legacy_")
        cls.source = os.path.join(cls.directory.name, "source")
        cls.mount = os.path.join(cls.directory.name, "mnt")
        os.mkdir(cls.source)
        os.mkdir(cls.mount)
        cls.content = random.Random(1).randbytes(3_000_003)
        with open(os.path.join(cls.source, "data"), "wb") as f:
            f.write(cls.content)
        cls.daemon = subprocess.Popen([cls.program, "-f", cls.source, cls.mount, "-o", "log=warn"])
        for _ in range(500):
            if os.path.ismount(cls.mount) or cls.daemon.poll() is not None:
                break
            time.sleep(0.01)
        if not os.path.ismount(cls.mount):
            raise RuntimeError("not mounted")

    @classmethod
    def tearDownClass(cls):
        cls.daemon.send_signal(signal.SIGTERM)
        status = cls.daemon.wait(60)
        cls.directory.cleanup()
        assert status == 0, status

    def setUp(self):
        self.memory = Memory(4 << 20)
        self.addCleanup(self.memory.close)
        self.root = self.open_fd(self.mount, os.O_RDONLY | os.O_DIRECTORY)

    def open_fd(self, path, flags=os.O_RDONLY):
        fd = os.open(path, flags, 0o644)
        self.addCleanup(self.close_quietly, fd)
        return fd

    @staticmethod
    def close_quietly(fd):
        try:
            os.close(fd)
        except OSError:
            pass

    def data(self, flags=os.O_RDONLY):
        return self.open_fd(os.path.join(self.mount, "data"), flags)

    def assert_fails(self, code, function, *arguments):
        with self.assertRaises(OSError) as caught:
            function(*arguments)
        self.assertEqual(errno.errorcode[caught.exception.errno], errno.errorcode[code])

    def test_info_names_the_backing_file(self):
        out = info(self.data())
        self.assertEqual(out[0], VERSION)
        backing = os.stat(os.path.join(self.source, "data"))
        self.assertEqual(out[6:8], (backing.st_dev, backing.st_ino))
        self.assertEqual(out[-1].rstrip(b"\0").decode(), os.path.join(self.source, "data"))

    def test_register_and_read(self):
        fd = self.data()
        buffer = register(fd, self.memory.fd, 4 << 20)
        result, route, _ = io(fd, READ, buffer, 5, 0, len(self.content))
        self.assertEqual(result, len(self.content))
        self.assertNotEqual(route, 0)
        self.assertEqual(self.memory.bytes[5 : 5 + len(self.content)], self.content)
        unregister(fd, buffer)
        self.assert_fails(errno.ENOENT, io, fd, READ, buffer, 0, 0, 1)

    def test_batch_read(self):
        fd = self.data()
        buffer = register(fd, self.memory.fd, 4 << 20)
        random_ = random.Random(2)
        entries = [(READ, buffer, i * 16384, random_.randrange(2_900_000), random_.randrange(1, 16384)) for i in range(200)]
        entries[7] = (READ, buffer + 1, 0, 0, 1)
        results = batch(fd, entries)
        self.assertEqual(results[7][0], -errno.ENOENT)
        for i, (_, _, at, offset, length) in enumerate(entries):
            if i != 7:
                self.assertEqual(results[i][0], length)
                self.assertEqual(self.memory.bytes[at : at + length], self.content[offset : offset + length])

    def test_write(self):
        fd = self.open_fd(os.path.join(self.mount, "out"), os.O_RDWR | os.O_CREAT)
        buffer = register(fd, self.memory.fd, 4 << 20)
        self.memory.bytes[: len(self.content)] = self.content
        self.assertEqual(io(fd, WRITE, buffer, 0, 1, len(self.content))[0], len(self.content))
        self.assertEqual(os.fstat(fd).st_size, len(self.content) + 1)
        with open(os.path.join(self.source, "out"), "rb") as f:
            self.assertEqual(f.read(), b"\0" + self.content)

    def test_tag_diverts(self):
        buffer = register(self.root, self.memory.fd, 4 << 20, FOR_PROCESS)
        fd = self.data()
        tag(fd, buffer, 100, 0, 3 << 20)
        self.assertEqual(os.read(fd, 1000), bytes(1000))
        self.assertEqual(os.lseek(fd, 0, os.SEEK_CUR), 1000)
        self.assertEqual(os.pread(fd, 500, 100_000), bytes(500))
        os.lseek(fd, 200_000, os.SEEK_SET)
        parts = [bytearray(b"x" * 10), bytearray(b"x" * 90)]
        self.assertEqual(os.readv(fd, parts), 100)
        self.assertEqual(parts[1], bytes(90))
        for offset, length in ((0, 1000), (100_000, 500), (200_000, 100)):
            self.assertEqual(self.memory.bytes[100 + offset : 100 + offset + length], self.content[offset : offset + length])
        self.assertEqual(os.pread(fd, 10, len(self.content)), b"")
        self.assertEqual(untag(fd)[:2], (1600, 0))
        self.assertEqual(os.pread(fd, 10, 0), self.content[:10])

    def test_tag_tees(self):
        buffer = register(self.root, self.memory.fd, 4 << 20, FOR_PROCESS)
        fd = self.data()
        tag(fd, buffer, 0, 0, 4 << 20, TEE)
        with os.fdopen(os.dup(fd), "rb") as f:
            self.assertEqual(f.read(), self.content)
        self.assertEqual(self.memory.bytes[: len(self.content)], self.content)

    def test_tag_writes(self):
        buffer = register(self.root, self.memory.fd, 4 << 20, FOR_PROCESS)
        fd = self.open_fd(os.path.join(self.mount, "checkpoint"), os.O_RDWR | os.O_CREAT)
        self.memory.bytes[:50_000] = self.content[:50_000]
        tag(fd, buffer, 0, 0, 50_000, TAG_WRITE)
        self.assertEqual(os.write(fd, bytes(60_000)), 50_000)
        self.assert_fails(errno.ENOSPC, os.write, fd, b"x")
        with open(os.path.join(self.source, "checkpoint"), "rb") as f:
            self.assertEqual(f.read(), self.content[:50_000])

    def test_bad_input(self):
        fd = self.data()
        buffer = register(fd, self.memory.fd, 8192)
        self.assert_fails(errno.ERANGE, io, fd, READ, buffer, 8192, 0, 1)
        self.assert_fails(errno.ERANGE, io, fd, READ, buffer, 0, 0, 8193)
        self.assert_fails(errno.ERANGE, io, fd, READ, buffer, 2**64 - 1, 0, 8192)
        self.assert_fails(errno.EINVAL, io, fd, READ, buffer, 0, 2**63, 1)
        self.assert_fails(errno.EINVAL, io, fd, 5, buffer, 0, 0, 1)
        self.assert_fails(errno.EBADF, io, fd, WRITE, buffer, 0, 0, 1)
        self.assert_fails(errno.EISDIR, io, self.root, READ, buffer, 0, 0, 1)
        self.assert_fails(errno.EBADF, register, fd, 9999, 8192)
        self.assert_fails(errno.EINVAL, register, fd, self.memory.fd, (4 << 20) + 1)
        self.assert_fails(errno.EOPNOTSUPP, tag, fd, buffer, 0, 0, 10)
        self.assert_fails(errno.ENODATA, untag, fd)
        self.assert_fails(errno.EINVAL, call, fd, 3, 4, "=IIII", VERSION, 0, 0, 0)
        self.assert_fails(errno.EPROTONOSUPPORT, call, fd, 1, 3, UNREGISTER, 7, 0, buffer, *[0] * 4)
        self.assert_fails(errno.ENOTTY, call, fd, 3, 99, "=I", VERSION)

    def test_ids_of_other_processes_are_refused(self):
        fd = self.data()
        buffer = register(fd, self.memory.fd, 8192)
        pid = os.fork()
        if pid == 0:
            try:
                other = os.open(os.path.join(self.mount, "data"), os.O_RDONLY)
                for function, code in (
                    (lambda: io(other, READ, buffer, 0, 0, 1), errno.ENOENT),
                    (lambda: attach(other, buffer), errno.EPERM),
                ):
                    try:
                        function()
                        os._exit(2)
                    except OSError as e:
                        if e.errno != code:
                            os._exit(3)
                os._exit(0 if io(fd, READ, buffer, 0, 0, 1)[0] == 1 else 4)
            finally:
                os._exit(5)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)

    def test_a_client_killed_in_the_middle(self):
        for _ in range(3):
            pid = os.fork()
            if pid == 0:
                try:
                    memory = Memory(1 << 30)
                    with open(os.path.join(self.source, "large"), "wb") as f:
                        f.truncate(1 << 30)
                    fd = os.open(os.path.join(self.mount, "large"), os.O_RDONLY)
                    buffer = register(fd, memory.fd, 1 << 30)
                    while True:
                        io(fd, READ, buffer, 0, 0, 1 << 30)
                finally:
                    os._exit(1)
            time.sleep(0.3)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        fd = self.data()
        self.assertEqual(io(fd, READ, register(fd, self.memory.fd, 4096), 0, 0, 4096)[0], 4096)

    def test_an_unmodified_command(self):
        buffer = register(self.root, self.memory.fd, 4 << 20, FOR_PROCESS)
        fd = self.data()
        tag(fd, buffer, 0, 0, 4 << 20)
        subprocess.run(["dd", "of=/dev/null", "bs=64k", "status=none"], stdin=fd, check=True)
        self.assertEqual(self.memory.bytes[: len(self.content)], self.content)

    def test_a_thread_may_register_too(self):
        import threading

        fd = self.data()
        results = []
        thread = threading.Thread(target=lambda: results.append(register(fd, self.memory.fd, 4096)))
        thread.start()
        thread.join()
        self.assertEqual(io(fd, READ, results[0], 0, 0, 4096)[0], 4096)


if __name__ == "__main__":
    if os.geteuid() != 0 or not os.access("/dev/fuse", os.R_OK | os.W_OK):
        print("skipped: needs root and /dev/fuse")
        sys.exit(77)
    LegacyTool.program = sys.argv.pop(1)
    unittest.main()
