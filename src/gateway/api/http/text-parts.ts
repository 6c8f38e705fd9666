/**
 * Text between the text parts of a message: each is on lines of its own, as with vLLM and llama.cpp. An assistant's parts are
 * pieces of one text, as they were generated.
 */
export const separatorOf = (role: string): string => (role === 'assistant' ? '' : '\n');
