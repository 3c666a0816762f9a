# SPDX-License-Identifier: Apache-2.0
"""The trainings of the programs beside this one, on random data in bf16: models(name, batch) gives what makes a step
and returns its loss. resnet18 spends its time on launching, transformer on the GPU."""
import torch
import torchvision


def resnet18(batch):
    model = torchvision.models.resnet18().cuda().to(memory_format=torch.channels_last)
    x = torch.randn(batch, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
    y = torch.randint(0, 1000, (batch,), device="cuda")
    return model, lambda m: torch.nn.functional.cross_entropy(m(x), y)


def transformer(batch):
    layer = torch.nn.TransformerEncoderLayer(2048, 16, 8192, batch_first=True, norm_first=True)
    model = torch.nn.TransformerEncoder(layer, 12, enable_nested_tensor=False).cuda()
    x = torch.randn(batch, 1024, 2048, device="cuda")
    return model, lambda m: m(x).float().pow(2).mean()


NAMES = {"resnet18": resnet18, "transformer": transformer}


def make(name, batch, lr, momentum=0.0, wrap=lambda model: model):
    torch.manual_seed(1)
    model, loss_of = NAMES[name](batch)
    model = wrap(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=momentum)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = loss_of(model)
        loss.backward()
        optimizer.step()
        return loss

    return step


def beside(step):
    """The step, and products in a stream of their own at the same time, which take about half as long."""
    stream, x = torch.cuda.Stream(), torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)

    def both():
        with torch.cuda.stream(stream):
            for _ in range(200):
                x @ x
        loss = step()
        torch.cuda.current_stream().wait_stream(stream)
        return loss

    return both
