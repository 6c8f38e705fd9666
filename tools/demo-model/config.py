"""The demo model's shape, shared by training and export.

Size as F16 (2 bytes a weight): a layer has 2·192·192 + 2·192·96 + 3·192·384 = 331,776 weights, so 7 layers and the tied
embedding of 2816 × 192 are 2.86 M weights, 5.73 MB; vocabulary and metadata add about 0.1 MB. F16 and not a smaller
type: engines round activations to 8 bits before a product with quantized weights, each in its own way, so that their
greedy tokens differ now and then. The stories' vocabulary has no use for more tokens.
"""
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Config:
    """A llama: RMSNorm, RoPE on adjacent pairs, grouped-query attention, SwiGLU, tied embeddings, no biases."""
    vocab_size: int = 2816
    hidden: int = 192
    layers: int = 7
    heads: int = 6
    kv_heads: int = 3
    head_dim: int = 32
    ffn: int = 384
    context: int = 1024
    rope_base: float = 10000.0
    norm_eps: float = 1e-5

    def shapes(self):
        """Every tensor's GGUF name and row-major shape; matrices are [out, in], norms [hidden]."""
        shapes = {'token_embd.weight': (self.vocab_size, self.hidden), 'output_norm.weight': (self.hidden,)}
        for layer in range(self.layers):
            shapes.update({f'blk.{layer}.{name}.weight': shape for name, shape in {
                'attn_norm': (self.hidden,),
                'attn_q': (self.heads * self.head_dim, self.hidden),
                'attn_k': (self.kv_heads * self.head_dim, self.hidden),
                'attn_v': (self.kv_heads * self.head_dim, self.hidden),
                'attn_output': (self.hidden, self.heads * self.head_dim),
                'ffn_norm': (self.hidden,),
                'ffn_gate': (self.ffn, self.hidden),
                'ffn_up': (self.ffn, self.hidden),
                'ffn_down': (self.hidden, self.ffn),
            }.items()})
        return shapes

    def as_dict(self):
        """The fields as a plain dictionary."""
        return asdict(self)
