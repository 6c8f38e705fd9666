import type { OptionValues } from '../../shared/option-table.js';
import type { DEMO_OPTIONS } from '../command-options.js';
import { writeNotice } from '../common/output.js';
import { DEMO_MODEL } from '../common/package-files.js';
import { generate } from './generate.js';

/** Enough for a whole story. */
const MOST_TOKENS = 200;

/** `rocmforge demo`: a story by the package's own model, token by token, through a gateway and an executor process. */
export async function demo(options: OptionValues<typeof DEMO_OPTIONS>): Promise<void> {
  writeNotice(`prompt: ${options.prompt}\n\n`);
  await generate({
    ...options,
    model: DEMO_MODEL,
    chat: true,
    maxTokens: MOST_TOKENS,
    temperature: 0,
    n: 1,
    json: false,
    stats: true,
  });
}
