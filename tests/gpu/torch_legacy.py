#!/usr/bin/env python3
"""PyTorch as a tool that nobody changed: its tensors' memory is registered by ioctl, and files of the mount are read into
them. Needs PyTorch with a GPU; nothing of it knows of HIP.

usage: torch_legacy.py HIPFILE_FUSE [--expandable]      exit 77 = skipped
"""
import ctypes
import json
import os
import random
import struct
import subprocess
import sys
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "clients"))
import mount_abi  # noqa: E402
import mounted  # noqa: E402

try:
    import numpy
    import torch
except ImportError:
    mounted.skip("PyTorch and numpy")
if not torch.cuda.is_available():
    mounted.skip("a GPU that PyTorch can use")

EXPANDABLE = "--expandable" in sys.argv


def beside(program, name):
    return os.path.join(os.path.dirname(os.path.abspath(program)), "..", "lib", name)


def handle_by_torch(tensor):
    """The handle that PyTorch itself would send to another process, and the tensor's offset behind it."""
    storage = tensor.untyped_storage()
    _, handle, _, offset, *_ = storage._share_cuda_()
    return bytes(handle)[-64:], offset + tensor.storage_offset() * tensor.element_size()


def size_of(tensor):
    return tensor.numel() * tensor.element_size()


def bytes_of(tensor):
    torch.cuda.synchronize()
    return tensor.contiguous().view(-1).view(torch.uint8).cpu().numpy().tobytes()


DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64, "U8": torch.uint8}
SIZES = {"F32": 4, "F16": 2, "BF16": 2, "I64": 8, "U8": 1}


def make_safetensors(path, shapes, seed):
    """{name: (dtype, shape)} with random bytes; gives {name: bytes}."""
    rng = random.Random(seed)
    header, content, at = {"__metadata__": {"format": "pt"}}, {}, 0
    for name, (dtype, shape) in shapes.items():
        count = SIZES[dtype]
        for n in shape:
            count *= n
        if dtype in ("F32", "F16", "BF16"):  # small whole numbers: no NaN, which equals nothing
            kind = {"F32": "float32", "F16": "float16", "BF16": "float32"}[dtype]
            values = numpy.array([rng.randrange(-100, 100) for _ in range(count // SIZES[dtype])], dtype=kind)
            data = values.tobytes()
            if dtype == "BF16":
                data = (values.view("uint32") >> 16).astype("uint16").tobytes()
        else:
            data = rng.randbytes(count)
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + count]}
        content[name] = data
        at += count
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)))
        f.write(text)
        for data in content.values():
            f.write(data)
    return content


def read_header(path):
    """{name: (dtype, shape, offset in the file, length)}, by plain reads of the mount."""
    with open(path, "rb") as f:
        (length,) = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(length))
    header.pop("__metadata__", None)
    return {name: (t["dtype"], t["shape"], 8 + length + t["data_offsets"][0], t["data_offsets"][1] - t["data_offsets"][0])
            for name, t in header.items()}


class TorchLegacy(mounted.Mounted):
    length = 40_000_003
    log = "info"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.hip = ctypes.CDLL(beside(cls.program, "cuda/libamdhip64.so.6"))

    def handle_by_hip(self, tensor):
        """Of the pointer itself, wherever in its allocation it is."""
        handle = ctypes.create_string_buffer(64)
        error = self.hip.hipIpcGetMemHandle(handle, ctypes.c_void_p(tensor.data_ptr()))
        self.assertEqual(error, 0)
        return handle.raw

    def register(self, fd, tensor, flags=0):
        handle, offset = handle_by_torch(tensor)
        torch.cuda.synchronize()
        return mount_abi.register_handle(fd, handle, size_of(tensor), flags, offset)

    # ------------------------------------------------------------------------------------------------ a plain file

    def test_the_daemon_runs_on_the_gpu(self):
        out = mount_abi.info(self.root)
        self.assertNotIn(out[3], (0, 2))
        print("daemon:", out[-3].split(b"\0")[0].decode(), "| torch", torch.__version__, torch.cuda.get_device_name(0))

    def test_reads_into_a_tensor_by_pytorchs_own_handle(self):
        tensor = torch.zeros(40_000_003, dtype=torch.uint8, device="cuda")
        fd = self.data()
        buffer = self.register(fd, tensor)
        result, route, reason = mount_abi.io(fd, mount_abi.READ, buffer, 0, 0, size_of(tensor))
        self.assertEqual(result, size_of(tensor))
        print("route", route, "reason", reason)
        path = os.path.join(self.mount, "data")
        expected = torch.from_file(path, size=size_of(tensor), dtype=torch.uint8)
        self.assertTrue(torch.equal(tensor.cpu(), expected))
        self.assertEqual(bytes_of(tensor), numpy.fromfile(path, dtype=numpy.uint8).tobytes())
        mount_abi.unregister(fd, buffer)

    def test_reads_into_tensors_by_the_pointer_inside_their_segment(self):
        keep = [torch.full((1000 + 37 * i,), i, dtype=torch.float32, device="cuda") for i in range(40)]
        for i in (0, 7, 39):
            fd = self.data()
            torch.cuda.synchronize()
            buffer = mount_abi.register_handle(fd, self.handle_by_hip(keep[i]), size_of(keep[i]))
            self.assertEqual(mount_abi.io(fd, mount_abi.READ, buffer, 0, 1000 * i, size_of(keep[i]))[0], size_of(keep[i]))
            self.assertEqual(bytes_of(keep[i]), self.content[1000 * i:1000 * i + size_of(keep[i])])
        for i in (1, 6, 8, 38):  # the neighbours are what they were
            self.assertTrue(bool((keep[i] == i).all()))

    def test_a_slice_of_a_tensor(self):
        tensor = torch.full((64, 1000), 5.0, device="cuda")
        rows = tensor[10:20]
        fd = self.data()
        buffer = self.register(fd, rows)
        self.assertEqual(mount_abi.io(fd, mount_abi.READ, buffer, 0, 123, size_of(rows))[0], size_of(rows))
        self.assertEqual(bytes_of(rows), self.content[123:123 + size_of(rows)])
        self.assertTrue(bool((tensor[:10] == 5.0).all()) and bool((tensor[20:] == 5.0).all()))

    def test_batch(self):
        tensor = torch.zeros(8 << 20, dtype=torch.uint8, device="cuda")
        fd = self.data()
        buffer = self.register(fd, tensor)
        entries = [(mount_abi.READ, buffer, i * 30_000, i * 7919, 1 + i * 100) for i in range(200)]
        for result, *_ in [r for r in mount_abi.batch(fd, entries)]:
            self.assertGreater(result, 0)
        got = bytes_of(tensor)
        for _, _, at, offset, length in entries:
            self.assertEqual(got[at:at + length], self.content[offset:offset + length])

    def test_tagged_preadv(self):
        tensor = torch.zeros(40_000_003, dtype=torch.uint8, device="cuda")
        buffer = self.register(self.root, tensor, mount_abi.FOR_PROCESS)
        fd = self.data()
        mount_abi.tag(fd, buffer, 0, 0, size_of(tensor))
        own = bytearray(b"o" * (1 << 20))
        at = 0
        while at < len(self.content):
            n = os.preadv(fd, [own], at)
            self.assertGreater(n, 0)
            at += n
        self.assertEqual(bytes(own[:1000]), bytes(1000))
        self.assertEqual(mount_abi.untag(fd)[0], len(self.content))
        self.assertEqual(bytes_of(tensor), self.content)

    def test_writes_a_checkpoint_from_a_tensor(self):
        tensor = torch.randint(0, 255, (5_000_001,), dtype=torch.uint8, device="cuda")
        buffer = self.register(self.root, tensor, mount_abi.FOR_PROCESS)
        fd = self.open_fd(os.path.join(self.mount, "checkpoint"), os.O_RDWR | os.O_CREAT)
        self.assertEqual(mount_abi.io(fd, mount_abi.WRITE, buffer, 0, 0, size_of(tensor))[0], size_of(tensor))
        with open(os.path.join(self.source, "checkpoint"), "rb") as f:
            self.assertEqual(f.read(), bytes_of(tensor))
        fd = self.open_fd(os.path.join(self.mount, "checkpoint2"), os.O_RDWR | os.O_CREAT)
        mount_abi.tag(fd, buffer, 0, 0, size_of(tensor), mount_abi.TAG_WRITE)
        at = 0
        while at < size_of(tensor):
            at += os.pwrite(fd, bytes(min(1 << 20, size_of(tensor) - at)), at)
        mount_abi.untag(fd)
        with open(os.path.join(self.source, "checkpoint2"), "rb") as f:
            self.assertEqual(f.read(), bytes_of(tensor))

    # ------------------------------------------------------------------------------------------------- model weights

    def load(self, path):
        """Every tensor of a safetensors file of the mount, straight into memory that PyTorch allocated."""
        fd = self.open_fd(path)
        tensors = {}
        for name, (dtype, shape, offset, length) in read_header(path).items():
            tensor = torch.empty(shape, dtype=DTYPES[dtype], device="cuda")
            buffer = self.register(fd, tensor)
            self.assertEqual(mount_abi.io(fd, mount_abi.READ, buffer, 0, offset, length)[0], length, name)
            mount_abi.unregister(fd, buffer)
            tensors[name] = tensor
        return tensors

    def test_safetensors_tensor_by_tensor(self):
        shapes = {"wte": ("F16", (5000, 64)), "bias": ("F32", (3,)), "h.0": ("BF16", (128, 257)), "ids": ("I64", (1000,)),
                  "mask": ("U8", (77,))}
        content = make_safetensors(os.path.join(self.source, "model.safetensors"), shapes, 1)
        path = os.path.join(self.mount, "model.safetensors")
        loaded = self.load(path)
        for name, data in content.items():
            self.assertEqual(bytes_of(loaded[name]), data, name)
        try:
            from safetensors.torch import load_file
        except ImportError:
            return
        for name, tensor in load_file(path, device="cpu").items():
            self.assertTrue(torch.equal(loaded[name].cpu(), tensor), name)

    def test_sharded_weights(self):
        """As GPT-style checkpoints are: an index, and several files with the layers spread over them."""
        weight_map, content = {}, {}
        for shard in range(3):
            name = "model-%05d-of-00003.safetensors" % (shard + 1)
            shapes = {}
            for layer in range(shard * 4, shard * 4 + 4):
                prefix = "transformer.h.%d." % layer
                shapes[prefix + "attn.c_attn.weight"] = ("F16", (256, 768))
                shapes[prefix + "attn.c_attn.bias"] = ("F16", (768,))
                shapes[prefix + "mlp.c_fc.weight"] = ("BF16", (256, 1024))
                shapes[prefix + "ln_1.weight"] = ("F32", (256,))
            content.update(make_safetensors(os.path.join(self.source, name), shapes, shard))
            weight_map.update({t: name for t in shapes})
        with open(os.path.join(self.source, "model.safetensors.index.json"), "w") as f:
            json.dump({"metadata": {}, "weight_map": weight_map}, f)
        with open(os.path.join(self.mount, "model.safetensors.index.json")) as f:
            shards = sorted(set(json.load(f)["weight_map"].values()))
        loaded = {}
        for shard in shards:
            loaded.update(self.load(os.path.join(self.mount, shard)))
        self.assertEqual(set(loaded), set(content))
        for name, data in content.items():
            self.assertEqual(bytes_of(loaded[name]), data, name)

    # --------------------------------------------------------------------------------------------------- the library

    def test_hipfile_in_the_same_process(self):
        """libhipfile takes PyTorch's pointers, and leaves PyTorch's device and streams alone."""

        class Error(ctypes.Structure):
            _fields_ = [("err", ctypes.c_int), ("hip", ctypes.c_int)]

        class Descr(ctypes.Structure):
            _fields_ = [("type", ctypes.c_int), ("fd", ctypes.c_uint64), ("ops", ctypes.c_void_p)]

        library = ctypes.CDLL(beside(self.program, "libhipfile.so.0"))
        for name in ("hipFileDriverOpen", "hipFileDriverClose", "hipFileHandleRegister"):
            getattr(library, name).restype = Error
        library.hipFileRead.restype = ctypes.c_ssize_t
        library.hipFileRead.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64, ctypes.c_int64]
        library.hipFileHandleDeregister.argtypes = [ctypes.c_void_p]
        self.assertEqual(library.hipFileDriverOpen().err, 0)
        handle = ctypes.c_void_p()
        descr = Descr(1, self.data(), None)
        self.assertEqual(library.hipFileHandleRegister(ctypes.byref(handle), ctypes.byref(descr)).err, 0)
        before = torch.cuda.current_device()
        tensor = torch.zeros(9_000_001, dtype=torch.uint8, device="cuda")
        part = tensor[777:]
        torch.cuda.synchronize()
        self.assertEqual(library.hipFileRead(handle, part.data_ptr(), size_of(part), 11, 0), size_of(part))
        self.assertEqual(bytes_of(part), self.content[11:11 + size_of(part)])
        self.assertFalse(bool(tensor[:777].any()))
        self.assertEqual(torch.cuda.current_device(), before)
        self.assertEqual(float((torch.ones(1000, device="cuda") * 2).sum()), 2000.0)
        library.hipFileHandleDeregister(handle)
        self.assertEqual(library.hipFileDriverClose().err, 0)


class Expandable(TorchLegacy):
    """With expandable segments memory has no IPC handle. The library works all the same; what the mount can do is
    printed."""

    def test_hipfile_reads_across_the_parts_of_a_segment(self):
        big = torch.zeros(150 << 20, dtype=torch.uint8, device="cuda")
        base, size = ctypes.c_void_p(), ctypes.c_size_t()
        self.hip.hipMemGetAddressRange(ctypes.byref(base), ctypes.byref(size), ctypes.c_void_p(big.data_ptr()))
        print("address range of", big.numel(), "bytes:", size.value - (big.data_ptr() - (base.value or 0)), "left")
        self.assertGreaterEqual(size.value - (big.data_ptr() - base.value), big.numel())
        handle = ctypes.create_string_buffer(64)
        error = self.hip.hipIpcGetMemHandle(handle, ctypes.c_void_p(big.data_ptr()))
        print("hipIpcGetMemHandle:", error)
        self.assertNotEqual(error, 0)
        cuda = ctypes.CDLL("libcuda.so.1")
        allocation, fd = ctypes.c_uint64(), ctypes.c_int(-1)
        error = cuda.cuMemRetainAllocationHandle(ctypes.byref(allocation), ctypes.c_void_p(big.data_ptr()))
        shared = cuda.cuMemExportToShareableHandle(ctypes.byref(fd), allocation, 1, ctypes.c_ulonglong(0))
        print("cuMemRetainAllocationHandle:", error, "cuMemExportToShareableHandle:", shared, "fd", fd.value)
        if shared != 0:
            return
        print("descriptor:", os.readlink("/proc/self/fd/%d" % fd.value))
        part = min(2 << 20, size.value)
        file = self.data()
        buffer = mount_abi.register(file, fd.value, part)
        self.assertEqual(mount_abi.io(file, mount_abi.READ, buffer, 0, 0, part)[0], part)
        print("registered by descriptor: works")


def main():
    program = os.path.abspath(sys.argv[1])
    TorchLegacy.program = program
    chosen = TorchLegacy
    names = None
    if EXPANDABLE:
        chosen = Expandable
        names = ["test_hipfile_in_the_same_process", "test_hipfile_reads_across_the_parts_of_a_segment"]
    loader = unittest.TestLoader()
    suite = unittest.TestSuite(map(chosen, names)) if names else loader.loadTestsFromTestCase(chosen)
    ok = unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful()
    if not EXPANDABLE:
        again = [sys.executable, os.path.abspath(__file__), program, "--expandable"]
        environment = dict(os.environ, PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True",
                           PYTORCH_ALLOC_CONF="expandable_segments:True")
        ok = subprocess.run(again, env=environment, check=False).returncode == 0 and ok
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    mounted.skip_without_fuse()
    main()
