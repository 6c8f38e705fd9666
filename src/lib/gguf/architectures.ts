/** Architectures with a family of their own, by the name that `general.architecture` has for them. */
export const FAMILIES = [
  'llama',
  'apertus',
  'arcee',
  'qwen2',
  'qwen3',
  'gemma',
  'gemma2',
  'gemma3',
  'gemma3n',
  'gemma4',
  'phi3',
  'phimoe',
  'glm4',
  'chatglm',
  'granite',
  'olmo2',
  'smollm3',
  'mistral3',
  'command-r',
  'cohere2',
  'exaone4',
  'starcoder2',
  'falcon',
  'gptneox',
  'seed_oss',
  'hunyuan-dense',
  'maincoder',
  'qwen2moe',
  'qwen3moe',
  'granitemoe',
  'granitehybrid',
  'falcon-h1',
  'glm4moe',
  'deepseek2',
  'olmoe',
  'ernie4_5-moe',
  'dots1',
  'deepseek',
  'bailingmoe',
  'hunyuan-moe',
  'mellum',
  'bailingmoe2',
  'minimax-m2',
  'gpt-oss',
  'lfm2',
  'lfm2moe',
  'nemotron_h',
  'nemotron_h_moe',
  'qwen3next',
  'qwen35',
  'qwen35moe',
  'bert',
  'nomic-bert',
  'jina-bert-v2',
  'modern-bert',
  'gemma-embedding',
] as const;
export type ArchitectureName = (typeof FAMILIES)[number];

/** Architectures that are computed as a family of another name is; keys that only they have are read in architecture-traits.ts. */
export const ALIASES = {
  baichuan: 'llama',
  codeshell: 'starcoder2',
  deci: 'llama',
  ernie4_5: 'llama',
  exaone: 'qwen2',
  internlm2: 'llama',
  jais2: 'starcoder2',
  minicpm: 'granite',
  nanbeige: 'llama',
  nemotron: 'starcoder2',
  orion: 'starcoder2',
  paddleocr: 'qwen2',
  'pangu-embedded': 'qwen2',
  phi2: 'falcon',
  qwen: 'qwen2',
  qwen2vl: 'qwen2',
  qwen3vl: 'qwen3',
  qwen3vlmoe: 'qwen3moe',
  stablelm: 'starcoder2',
  xverse: 'llama',
} as const satisfies Readonly<Record<string, ArchitectureName>>;
export type AliasName = keyof typeof ALIASES;

/** Every architecture that can run. */
export const ARCHITECTURES: readonly string[] = [...FAMILIES, ...Object.keys(ALIASES)];

/** The family that computes an architecture; undefined: none does. */
export function familyOf(architecture: string): ArchitectureName | undefined {
  if (Object.hasOwn(ALIASES, architecture)) return ALIASES[architecture as AliasName];
  return FAMILIES.find((name) => name === architecture);
}
