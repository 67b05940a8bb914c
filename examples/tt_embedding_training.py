"""Train an embedding whose table is a tensor train, beside one with the whole table.

    python examples/tt_embedding_training.py

Words of 3000 are sorted into 8 classes by a linear layer on their rows.  Both tables hold the same numbers at first;
the cores have 5,440 instead of 96,000, and their loss comes as low.
"""

from __future__ import annotations

import click
import torch
from torch.nn.functional import cross_entropy

from vyre_opt.torch import TTEmbedding

P, Q, RANKS = (50, 60), (4, 8), (8,)
CLASSES = 8


def train(embedding: torch.nn.Module, words: torch.Tensor, classes: torch.Tensor, steps: int) -> list[float]:
    """The loss of each step, each on all the words."""
    torch.manual_seed(1)
    layer = torch.nn.Linear(Q[0] * Q[1], CLASSES).to(words.device)
    optimizer = torch.optim.Adam([*embedding.parameters(), *layer.parameters()], lr=0.02)
    losses = []
    for _ in range(steps):
        loss = cross_entropy(layer(embedding(words)), classes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def compare(steps: int, device: str = "cpu") -> tuple[list[float], list[float]]:
    """The losses of the tensor train, and of a dense table that starts as the same product."""
    torch.manual_seed(0)
    short = TTEmbedding(P, Q, RANKS, device=device)
    dense = torch.nn.Embedding.from_pretrained(short.table().detach(), freeze=False)
    words = torch.randint(short.num_embeddings, (1024,), device=device)
    classes = words // P[1] % CLASSES
    return train(short, words, classes, steps), train(dense, words, classes, steps)


@click.command()
@click.option("--steps", default=200, show_default=True, help="Steps of training.")
@click.option("--device", default="cpu", show_default=True, help="Where torch and the kernels compute.")
def main(steps: int, device: str) -> None:
    """Print the losses of a tensor train and of a dense table."""
    of_train, of_table = compare(steps, device)
    for step in sorted({0, steps // 4, steps // 2, steps - 1}):
        print(f"step {step:4}: tensor train {of_train[step]:.5f}, dense table {of_table[step]:.5f}")


if __name__ == "__main__":
    main()
