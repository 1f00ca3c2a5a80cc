"""A directory of its own, mounted by the daemon, for the tests of a class. Exit status 77 = skipped."""
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest


def skip(why):
    print("skipped: needs " + why)
    sys.exit(77)


def skip_without_fuse():
    if os.geteuid() != 0 or not os.access("/dev/fuse", os.R_OK | os.W_OK):
        skip("root and /dev/fuse")


class Mounted(unittest.TestCase):
    """The file "data" holds "content", and "root" is open in each test."""

    program = None
    length = 3_000_003
    log = "warn"

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory(dir="/var/tmp", prefix="hipfile_mounted_")
        cls.source = os.path.join(cls.directory.name, "source")
        cls.mount = os.path.join(cls.directory.name, "mnt")
        os.mkdir(cls.source)
        os.mkdir(cls.mount)
        cls.content = random.Random(1).randbytes(cls.length)
        with open(os.path.join(cls.source, "data"), "wb") as f:
            f.write(cls.content)
        cls.daemon = subprocess.Popen([cls.program, "-f", cls.source, cls.mount, "-o", "log=" + cls.log])
        for _ in range(1000):
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

    def data(self):
        return self.open_fd(os.path.join(self.mount, "data"))
