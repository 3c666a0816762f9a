# SPDX-License-Identifier: Apache-2.0
"""What the programs beside this one do, on random data in bf16: make(name, batch) gives what makes a step and returns
its loss. resnet18, vit (ViT-S) and generation spend their time on launching, transformer and gpt on the GPU."""
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


class Block(torch.nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.before, self.behind = torch.nn.LayerNorm(d), torch.nn.LayerNorm(d)
        self.qkv, self.out = torch.nn.Linear(d, 3 * d), torch.nn.Linear(d, d)
        self.widen, self.narrow = torch.nn.Linear(d, 4 * d), torch.nn.Linear(4 * d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(self.before(x)).chunk(3, dim=2))
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, d))
        return x + self.narrow(torch.nn.functional.gelu(self.widen(self.behind(x))))


class GPT(torch.nn.Module):
    """A decoder of the shape of GPT-2."""

    def __init__(self, d=1536, layers=12, heads=24, words=50304, length=1024):
        super().__init__()
        self.words, self.places = torch.nn.Embedding(words, d), torch.nn.Embedding(length, d)
        self.blocks = torch.nn.Sequential(*(Block(d, heads) for _ in range(layers)))
        self.last = torch.nn.LayerNorm(d)

    def forward(self, tokens):
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        return torch.nn.functional.linear(self.last(self.blocks(x)), self.words.weight)


def gpt(batch):
    tokens = torch.randint(0, 50304, (batch, 1025), device="cuda")
    return GPT().cuda(), lambda m: torch.nn.functional.cross_entropy(m(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


class Generation:
    """Token after token of a decoder: a step is one token of each sequence, with the keys and values of those before
    it. Begins anew after `length` tokens."""

    def __init__(self, batch, length=256):
        self.model, self.length, self.at = GPT(d=768, heads=12, length=length).cuda().bfloat16().eval(), length, 0
        self.tokens = torch.randint(0, 50304, (batch, 1), device="cuda")
        self.cache = [torch.zeros(2, batch, 12, length, 64, device="cuda", dtype=torch.bfloat16) for _ in self.model.blocks]

    def attend(self, block, cache, x):
        q, k, v = (y.view(len(x), 1, 12, 64).transpose(1, 2) for y in block.qkv(block.before(x)).chunk(3, dim=2))
        cache[0, :, :, self.at:self.at + 1], cache[1, :, :, self.at:self.at + 1] = k, v
        scores = q @ cache[0, :, :, :self.at + 1].transpose(2, 3) / 8
        y = scores.softmax(dim=3) @ cache[1, :, :, :self.at + 1]
        x = x + block.out(y.transpose(1, 2).reshape(len(x), 1, -1))
        return x + block.narrow(torch.nn.functional.gelu(block.widen(block.behind(x))))

    @torch.inference_mode()
    def __call__(self):
        x = self.model.words(self.tokens) + self.model.places.weight[self.at]
        for block, cache in zip(self.model.blocks, self.cache):
            x = self.attend(block, cache, x)
        best = torch.nn.functional.linear(self.model.last(x), self.model.words.weight).max(dim=2)
        self.tokens, self.at = best.indices, (self.at + 1) % self.length
        return best.values.mean()


def vit(batch):
    model = torchvision.models.VisionTransformer(224, 16, num_layers=12, num_heads=6, hidden_dim=384, mlp_dim=1536).cuda()
    x = torch.randn(batch, 3, 224, 224, device="cuda")
    y = torch.randint(0, 1000, (batch,), device="cuda")
    return model, lambda m: torch.nn.functional.cross_entropy(m(x), y)


NAMES = {"resnet18": resnet18, "vit": vit, "transformer": transformer, "gpt": gpt, "generation": None}


def make(name, batch, lr, momentum=0.0, wrap=lambda model: model):
    torch.manual_seed(1)
    if name == "generation":
        return Generation(batch)
    model, loss_of = NAMES[name](batch)
    model = wrap(model)
    if name == "gpt":
        optimizer = torch.optim.AdamW(model.parameters(), lr=lr / 100)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=momentum)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = loss_of(model)
        loss.backward()
        optimizer.step()
        return loss

    return step
