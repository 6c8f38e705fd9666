"""The demo model in PyTorch (1.13 and 2.x): a llama whose parameters carry their GGUF names, RoPE on adjacent pairs."""
import torch
import torch.nn.functional as F
from torch import nn


class RMSNorm(nn.Module):
    """x / rms(x) · weight, over the last dimension, in f32."""

    def __init__(self, size, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x):
        """x [..., size] → the same shape and type."""
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight).to(x.dtype)


def rotate(x, cos, sin):
    """RoPE on adjacent pairs of x [batch, heads, tokens, head_dim]; cos and sin are [tokens, head_dim / 2]."""
    even, odd = x[..., ::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2).to(x.dtype)


def causal_attention(q, k, v):
    """softmax(q kᵀ / √d + causal mask) v for [batch, heads, tokens, head_dim]."""
    if hasattr(F, 'scaled_dot_product_attention'):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
    return scores.masked_fill(future, float('-inf')).softmax(-1) @ v


class Block(nn.Module):
    """One layer: attention and SwiGLU, each behind an RMSNorm and added to the residual stream."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        shapes = {name.split('.')[2]: shape for name, shape in config.shapes().items() if name.startswith('blk.0.')}
        for name, shape in shapes.items():
            self.add_module(name, RMSNorm(shape[0], config.norm_eps) if len(shape) == 1 else
                            nn.Linear(shape[1], shape[0], bias=False))

    def forward(self, x, cos, sin):
        """x [batch, tokens, hidden] → the same shape."""
        batch, tokens, _ = x.shape
        c = self.config
        h = self.attn_norm(x)
        q = self.attn_q(h).view(batch, tokens, c.heads, c.head_dim).transpose(1, 2)
        k = self.attn_k(h).view(batch, tokens, c.kv_heads, c.head_dim).transpose(1, 2)
        v = self.attn_v(h).view(batch, tokens, c.kv_heads, c.head_dim).transpose(1, 2)
        group = c.heads // c.kv_heads
        k, v = rotate(k, cos, sin).repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        mixed = causal_attention(rotate(q, cos, sin), k, v)
        x = x + self.attn_output(mixed.transpose(1, 2).reshape(batch, tokens, -1))
        h = self.ffn_norm(x)
        return x + self.ffn_down(F.silu(self.ffn_gate(h)) * self.ffn_up(h))


class Llama(nn.Module):
    """The whole model; `output` is tied to the embedding."""

    def __init__(self, config):
        super().__init__()
        self.token_embd = nn.Embedding(config.vocab_size, config.hidden)
        self.blk = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.output_norm = RMSNorm(config.hidden, config.norm_eps)
        frequency = config.rope_base ** -(torch.arange(0, config.head_dim, 2, dtype=torch.float64) / config.head_dim)
        angles = torch.arange(config.context, dtype=torch.float64)[:, None] * frequency
        self.register_buffer('cos', angles.cos().float(), persistent=False)
        self.register_buffer('sin', angles.sin().float(), persistent=False)
        for name, parameter in self.named_parameters():
            if parameter.ndim == 2:
                residual = name.endswith(('attn_output.weight', 'ffn_down.weight'))
                nn.init.normal_(parameter, std=0.02 / (2 * config.layers) ** 0.5 if residual else 0.02)

    def forward(self, ids):
        """ids [batch, tokens] → logits [batch, tokens, vocab]."""
        x = self.token_embd(ids)
        cos, sin = self.cos[:ids.shape[1]], self.sin[:ids.shape[1]]
        for block in self.blk:
            x = block(x, cos, sin)
        return F.linear(self.output_norm(x), self.token_embd.weight)


def loss_of(model, rows, learned):
    """Mean cross-entropy over the learned tokens of rows [batch, tokens + 1] (learned: the same shape, bool)."""
    logits = model(rows[:, :-1])
    targets = rows[:, 1:].masked_fill(~learned[:, 1:], -100)
    return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten(), ignore_index=-100)
