#!/usr/bin/env python3
"""A tool that knows hipfile-fuse only by its ioctl ABI: Python's standard library, nothing else.

usage: legacy_tool.py HIPFILE_FUSE      mounts a directory of its own and tries everything; exit 77 = skipped
"""
import errno
import mmap
import os
import random
import signal
import subprocess
import sys
import time
import unittest

import mounted
from mount_abi import (FOR_PROCESS, READ, TAG_WRITE, TEE, UNREGISTER, VERSION, WRITE, attach, batch, call, info, io,
                       register, tag, unregister, untag)


class Memory:
    """What stands for device memory here: a memfd that the daemon maps."""

    def __init__(self, size):
        self.fd = os.memfd_create("device")
        os.ftruncate(self.fd, size)
        self.bytes = mmap.mmap(self.fd, size)

    def close(self):
        self.bytes.close()
        os.close(self.fd)


class LegacyTool(mounted.Mounted):
    def setUp(self):
        super().setUp()
        self.memory = Memory(4 << 20)
        self.addCleanup(self.memory.close)

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
    mounted.skip_without_fuse()
    LegacyTool.program = sys.argv.pop(1)
    unittest.main()
