"""The same training, with memory that stays where it is."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def make_loader() -> DataLoader:
    x = torch.randn(4096, 32)
    y = x.sum(dim=1, keepdim=True).sin()
    return DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True, num_workers=2)


@torch.no_grad()
def validate(model: nn.Module, loader: DataLoader, criterion: nn.Module) -> float:
    model.eval()
    losses = []
    for x, y in loader:
        losses.append(criterion(model(x), y))
    model.train()
    return sum(loss.item() for loss in losses) / len(losses)


def main() -> None:
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    criterion = nn.MSELoss()
    loader = make_loader()
    history = []
    for epoch in range(3):
        total_loss = 0.0
        for x, y in loader:
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total_loss += loss.detach()
            history.append(loss.detach())
        print(f"epoch {epoch}: training {total_loss / len(loader):.4f}, ", end="")
        print(f"validation {validate(model, loader, criterion):.4f}")
    print(f"{len(history)} steps, last loss {history[-1]:.4f}")


if __name__ == "__main__":
    main()
