import path from 'node:path';
import { packageRoot } from '../../shared/package.js';

/** The model that the package brings, trained by this project, and llama.cpp's own tokens for prompts to it. */
export const DEMO_MODEL = path.join(packageRoot, 'models', 'demo.gguf');
export const DEMO_PARITY = path.join(packageRoot, 'test', 'fixtures', 'demo-parity.json');
