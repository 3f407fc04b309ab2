"""PyTorch under a limit: the rate of a matrix product, and how much memory it gets. Run by measure.py."""

import sys
import time

import torch

SIDE = 8192


def matmul(seconds: float) -> None:
    left = torch.randn(SIDE, SIDE, device="cuda", dtype=torch.bfloat16)
    right = torch.randn_like(left)
    for _ in range(10):
        left @ right
    torch.cuda.synchronize()
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        for _ in range(10):
            left @ right
        torch.cuda.synchronize()
        count += 10
    passed = time.perf_counter() - start
    print(f"tflops={2 * SIDE**3 * count / passed / 1e12:.1f}\nper_s={count / passed:.2f}")


def fill(cap_mib: int) -> None:
    """Take memory in steps of 16 MiB until it is refused, then wait for a line to be looked at from outside."""
    held, got, end = [], 0, "cap"
    try:
        while got < cap_mib:
            held.append(torch.empty(16 << 20, dtype=torch.uint8, device="cuda"))
            got += 16
    except torch.OutOfMemoryError:
        end = "OutOfMemoryError"
    except RuntimeError as problem:
        end = f"{type(problem).__name__}: {str(problem)[:80]}"
    print(f"got_mib={got}\nend={end}\nfilled=1", flush=True)
    sys.stdin.readline()


def compatibility() -> None:
    """Convolution, a compiled function and a captured graph give what they give without a limiter."""
    torch.manual_seed(7)
    layer = torch.nn.Conv2d(16, 32, 3).cuda()
    picture = torch.randn(4, 16, 64, 64, device="cuda")
    convolved = layer(picture).double().sum().item()
    graph, static = torch.cuda.CUDAGraph(), torch.randn(256, 256, device="cuda")
    warm = torch.cuda.Stream()
    with torch.cuda.stream(warm):
        static @ static
    torch.cuda.current_stream().wait_stream(warm)
    with torch.cuda.graph(graph):
        result = torch.relu(static @ static)
    for _ in range(20):
        graph.replay()
    torch.cuda.synchronize()
    print(f"convolved={convolved:.6f}\ngraphed={result.double().sum().item():.4f}")


if __name__ == "__main__":
    task, argument = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "0"
    {"matmul": lambda: matmul(float(argument)), "fill": lambda: fill(int(argument)), "compatibility": compatibility}[
        task
    ]()
