import type { ArchitectureName } from '../../shared/gguf/servable-model.js';
import type { Family } from './family.js';
import { llama } from './llama.js';
import { qwen2 } from './qwen2.js';
import { qwen3 } from './qwen3.js';

/** Every family, by the name that its files have. */
export const families: Readonly<Record<ArchitectureName, Family>> = { llama, qwen2, qwen3 };
