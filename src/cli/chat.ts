import { createInterface } from 'node:readline/promises';
import { asRocmForgeError } from '../shared/errors.js';
import {
  ChatInput,
  GenerateStreamRequest,
  SamplingParameters,
  StopConditions,
} from '../shared/generated/rocmforge/v1/inference.js';
import { connect, stream } from './client.js';
import type { ModelOptionValues } from './options.js';

export interface ChatOptions extends ModelOptionValues {
  readonly model?: string;
  readonly address?: string;
  readonly system?: string;
  readonly maxTokens?: number;
  readonly temperature?: number;
  readonly seed?: bigint;
}

/** `rocmforge chat`: a conversation in the terminal. `/reset` forgets it, `/exit` or end of input ends it. */
export async function chat(options: ChatOptions): Promise<void> {
  const connection = await connect(options);
  const lines = createInterface({ input: process.stdin, output: process.stdout, prompt: '> ' });
  const opening = options.system === undefined ? [] : [{ role: 'system', content: options.system }];
  let messages = [...opening];
  try {
    lines.prompt();
    for await (const line of lines) {
      const content = line.trim();
      if (content === '/exit') break;
      if (content === '/reset') {
        messages = [...opening];
        process.stdout.write('(forgotten)\n');
      } else if (content !== '') {
        messages.push({ role: 'user', content });
        const request: GenerateStreamRequest = {
          ...GenerateStreamRequest.create(),
          input: { $case: 'chat', value: ChatInput.fromPartial({ messages }) },
          sampling: { ...SamplingParameters.create(), temperature: options.temperature, seed: options.seed },
          stop: { ...StopConditions.create(), maxTokens: options.maxTokens },
        };
        let answer = '';
        try {
          await stream(connection.client, request, (text) => {
            answer += text;
            process.stdout.write(text);
          });
          messages.push({ role: 'assistant', content: answer });
        } catch (error) {
          // The turn failed, the conversation goes on: what was asked is taken back.
          messages.pop();
          const told = asRocmForgeError(error);
          process.stdout.write(`\n(${told.reason}: ${told.message})`);
        }
        process.stdout.write('\n');
      }
      lines.prompt();
    }
  } finally {
    lines.close();
    await connection.close();
  }
}
