import type { Completion, GenerateChunk } from '../../../../shared/generated/rocmforge/v1/inference.js';

/** An assistant's turn as OpenAI's `message`, with the `reasoning_content` that DeepSeek's API and vLLM added. */
export function messageOf({ text, reasoning, toolCalls }: Completion): Readonly<Record<string, unknown>> {
  return {
    role: 'assistant',
    content: text === '' && toolCalls.length > 0 ? null : text,
    refusal: null,
    ...(reasoning !== '' && { reasoning_content: reasoning }),
    ...(toolCalls.length > 0 && {
      tool_calls: toolCalls.map(({ id, name, argumentsJson }) => ({
        id,
        type: 'function',
        function: { name, arguments: argumentsJson },
      })),
    }),
  };
}

/** Addition of a chunk to a turn, as OpenAI's `delta`. */
export function deltaOf({ text, reasoning, toolCalls }: GenerateChunk): Readonly<Record<string, unknown>> {
  const isContent = text !== '' || (reasoning === '' && toolCalls.length === 0);
  return {
    ...(reasoning !== '' && { reasoning_content: reasoning }),
    ...(isContent && { content: text }),
    ...(toolCalls.length > 0 && {
      tool_calls: toolCalls.map(({ index, id, name, argumentsJson }) => ({
        index,
        ...(id !== '' && { id, type: 'function' }),
        function: { ...(id !== '' && { name }), arguments: argumentsJson },
      })),
    }),
  };
}
