"""Lets vLLM on a CPU have KV blocks of 16 tokens, as on a GPU; Python runs it when its
directory is in PYTHONPATH.

vLLM 0.32 declares multiples of 32 for its attention on a CPU, and refuses to start with
16, although its kernel goes by vectors of 16. Only the declaration is changed: the
scheduler, the cache, the hashes and the events are the engine's own.
"""

import importlib.util
import sys

NAME = "vllm.v1.attention.backends.cpu_attn"


class Finder:
    def find_spec(self, name, path=None, target=None):
        if name != NAME:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            for value in vars(module).values():
                if isinstance(value, type) and "get_supported_kernel_block_sizes" in vars(value):
                    value.get_supported_kernel_block_sizes = staticmethod(lambda *_, **__: [module.MultipleOf(16)])

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, Finder())
