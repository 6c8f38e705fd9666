// One client library and one feature against a server, in the folder where the libraries are installed:
//
//   node library.mjs CLIENT FEATURE BASE_URL
//
// Prints a line `chunk` for each piece of a stream, and at the end a line of JSON: what the feature came to.
import { z } from 'zod';

const [client, feature, base] = process.argv.slice(2);
const openAiBase = `${base}/v1`;
const PROMPT = 'Answer.';
const Answer = z.object({ answer: z.string() });
const chunk = () => process.stdout.write('chunk\n');

/** @param {AsyncIterable<unknown>} stream @param {(event: any) => string | undefined} textOf */
async function joined(stream, textOf) {
  let text = '';
  for await (const event of stream) {
    const piece = textOf(event);
    if (!piece) continue;
    text += piece;
    chunk();
  }
  return text;
}

/** Aborts a stream at its first piece. @param {(signal: AbortSignal) => Promise<unknown>} stream */
async function cancelled(stream) {
  const abort = new AbortController();
  const timer = setTimeout(() => abort.abort(), 300);
  try {
    await stream(abort.signal);
  } catch {
    // Some clients throw when they are aborted, others end.
  }
  clearTimeout(timer);
  return { aborted: abort.signal.aborted };
}

const jsonSchema = {
  type: 'object',
  properties: { answer: { type: 'string', maxLength: 40 } },
  required: ['answer'],
  additionalProperties: false,
};

async function openai() {
  const { default: OpenAI } = await import('openai');
  const api = new OpenAI({ baseURL: openAiBase, apiKey: 'none', maxRetries: 0 });
  const messages = [{ role: 'user', content: PROMPT }];
  const tools = [{ type: 'function', function: { name: 'record', parameters: jsonSchema } }];
  const create = (body, options) => api.chat.completions.create({ model: 'demo', messages, ...body }, options);
  const stream = async (signal) =>
    joined(await create({ stream: true }, { signal }), (event) => event.choices[0]?.delta.content);
  return {
    text: async () => (await create({})).choices[0].message.content,
    stream: () => stream(),
    tools: async () => {
      const { message } = (await create({ tools })).choices[0];
      const results = message.tool_calls.map(({ id }) => ({ role: 'tool', tool_call_id: id, content: 'done' }));
      const { choices } = await create({ tools, messages: [...messages, message, ...results] });
      return { called: message.tool_calls[0].function, said: choices[0].message.content };
    },
    structured: async () => {
      const format = { type: 'json_schema', json_schema: { name: 'a', schema: jsonSchema, strict: true } };
      return Answer.parse(JSON.parse((await create({ response_format: format })).choices[0].message.content));
    },
    cancel: () => cancelled(stream),
  };
}

async function responses() {
  const { default: OpenAI } = await import('openai');
  const api = new OpenAI({ baseURL: openAiBase, apiKey: 'none', maxRetries: 0 });
  const tools = [{ type: 'function', name: 'record', parameters: jsonSchema, strict: false }];
  const create = (body, options) => api.responses.create({ model: 'demo', input: PROMPT, ...body }, options);
  const delta = (event) => (event.type === 'response.output_text.delta' ? event.delta : undefined);
  const stream = async (signal) => joined(await create({ stream: true }, { signal }), delta);
  return {
    text: async () => (await create({})).output_text,
    stream: () => stream(),
    tools: async () => {
      const first = await create({ tools });
      const [call] = first.output.filter(({ type }) => type === 'function_call');
      const input = [{ type: 'function_call_output', call_id: call.call_id, output: 'done' }];
      const second = await create({ tools, input, previous_response_id: first.id });
      return { called: { name: call.name, arguments: call.arguments }, said: second.output_text };
    },
    structured: async () => {
      const format = { type: 'json_schema', name: 'a', schema: jsonSchema, strict: true };
      return Answer.parse(JSON.parse((await create({ text: { format } })).output_text));
    },
    cancel: () => cancelled(stream),
  };
}

async function anthropic() {
  const { default: Anthropic } = await import('@anthropic-ai/sdk');
  const api = new Anthropic({ baseURL: base, apiKey: 'none', maxRetries: 0 });
  const messages = [{ role: 'user', content: PROMPT }];
  const tools = [{ name: 'record', input_schema: jsonSchema }];
  const body = { model: 'claude-sonnet-4-5', max_tokens: 600, messages };
  const delta = (event) => (event.type === 'content_block_delta' ? event.delta.text : undefined);
  const stream = async (signal) => joined(await api.messages.create({ ...body, stream: true }, { signal }), delta);
  const textOf = ({ content }) => content.map(({ text = '' }) => text).join('');
  return {
    text: async () => textOf(await api.messages.create(body)),
    stream: () => stream(),
    tools: async () => {
      const first = await api.messages.create({ ...body, tools });
      const call = first.content.find(({ type }) => type === 'tool_use');
      const result = { role: 'user', content: [{ type: 'tool_result', tool_use_id: call.id, content: 'done' }] };
      const turns = [...messages, { role: 'assistant', content: first.content }, result];
      const second = await api.messages.create({ ...body, tools, messages: turns });
      return { called: { name: call.name, arguments: JSON.stringify(call.input) }, said: textOf(second) };
    },
    structured: async () => {
      const output_config = { format: { type: 'json_schema', schema: jsonSchema } };
      return Answer.parse(JSON.parse(textOf(await api.messages.create({ ...body, output_config }))));
    },
    cancel: () => cancelled(stream),
  };
}

async function aiSdk(model) {
  const { generateObject, generateText, jsonSchema: schemaOf, stepCountIs, streamText, tool } = await import('ai');
  const record = tool({
    description: 'Records an answer.',
    inputSchema: schemaOf(jsonSchema),
    execute: async () => 'done',
  });
  const stream = async (abortSignal) => {
    const result = streamText({ model, prompt: PROMPT, maxRetries: 0, abortSignal });
    const text = await joined(result.textStream, (piece) => piece);
    return text;
  };
  return {
    text: async () => (await generateText({ model, prompt: PROMPT, maxRetries: 0 })).text,
    stream: () => stream(),
    tools: async () => {
      const result = streamText({ model, prompt: PROMPT, tools: { record }, stopWhen: stepCountIs(3), maxRetries: 0 });
      const said = await result.text;
      const [call] = (await result.steps).flatMap(({ toolCalls }) => toolCalls);
      return { called: { name: call.toolName, arguments: JSON.stringify(call.input) }, said };
    },
    structured: async () => {
      const { object } = await generateObject({ model, prompt: PROMPT, schema: schemaOf(jsonSchema), maxRetries: 0 });
      return Answer.parse(object);
    },
    cancel: () => cancelled(stream),
  };
}

async function agents() {
  const { Agent, OpenAIProvider, Runner, setTracingDisabled, tool } = await import('@openai/agents');
  setTracingDisabled(true);
  const modelProvider = new OpenAIProvider({ baseURL: openAiBase, apiKey: 'none', useResponses: true });
  const runner = new Runner({ modelProvider });
  const agentOf = (more = {}) => new Agent({ name: 'a', instructions: 'Be brief.', model: 'demo', ...more });
  const record = tool({
    name: 'record',
    description: 'Records an answer.',
    parameters: Answer,
    execute: async () => 'done',
  });
  const stream = async (signal) => {
    const result = await runner.run(agentOf(), PROMPT, { stream: true, signal });
    return joined(result.toTextStream(), (piece) => piece);
  };
  return {
    text: async () => (await runner.run(agentOf(), PROMPT)).finalOutput,
    stream: () => stream(),
    tools: async () => {
      const result = await runner.run(agentOf({ tools: [record] }), PROMPT);
      const call = result.newItems.find(({ type }) => type === 'tool_call_item').rawItem;
      return { called: { name: call.name, arguments: call.arguments }, said: result.finalOutput };
    },
    structured: async () => Answer.parse((await runner.run(agentOf({ outputType: Answer }), PROMPT)).finalOutput),
    cancel: () => cancelled(stream),
  };
}

async function langchain(model) {
  const { tool } = await import('@langchain/core/tools');
  const { HumanMessage, ToolMessage } = await import('@langchain/core/messages');
  const record = tool(async () => 'done', { name: 'record', description: 'Records an answer.', schema: Answer });
  const textOf = ({ content }) =>
    typeof content === 'string' ? content : content.map(({ text = '' }) => text).join('');
  const stream = async (signal) => joined(await model.stream(PROMPT, { signal }), textOf);
  return {
    text: async () => textOf(await model.invoke(PROMPT)),
    stream: () => stream(),
    tools: async () => {
      const bound = model.bindTools([record]);
      const first = await bound.invoke([new HumanMessage(PROMPT)]);
      const [call] = first.tool_calls;
      const result = new ToolMessage({ content: 'done', tool_call_id: call.id });
      const second = await bound.invoke([new HumanMessage(PROMPT), first, result]);
      return { called: { name: call.name, arguments: JSON.stringify(call.args) }, said: textOf(second) };
    },
    structured: async () => Answer.parse(await model.withStructuredOutput(Answer, { name: 'record' }).invoke(PROMPT)),
    cancel: () => cancelled(stream),
  };
}

async function ollama() {
  const { Ollama } = await import('ollama');
  const api = new Ollama({ host: base });
  const messages = [{ role: 'user', content: PROMPT }];
  const tools = [{ type: 'function', function: { name: 'record', description: '', parameters: jsonSchema } }];
  const chat = (body) => api.chat({ model: 'demo', messages, ...body });
  const stream = async (signal) => {
    const parts = await chat({ stream: true });
    signal?.addEventListener('abort', () => parts.abort());
    return joined(parts, ({ message }) => message.content);
  };
  return {
    text: async () => (await chat({})).message.content,
    stream: () => stream(),
    tools: async () => {
      const { message } = await chat({ tools });
      const results = message.tool_calls.map((made) => ({
        ...{ role: 'tool', tool_name: made.function.name, content: 'done' },
      }));
      const second = await chat({ tools, messages: [...messages, message, ...results] });
      return { called: message.tool_calls[0].function, said: second.message.content };
    },
    structured: async () => Answer.parse(JSON.parse((await chat({ format: jsonSchema })).message.content)),
    cancel: () => cancelled(stream),
  };
}

async function llamaIndex() {
  const { OpenAI } = await import('@llamaindex/openai');
  const { tool } = await import('llamaindex');
  const llm = new OpenAI({ model: 'demo', apiKey: 'none', baseURL: openAiBase, maxRetries: 0 });
  const messages = [{ role: 'user', content: PROMPT }];
  const record = tool({ name: 'record', description: 'Records.', parameters: Answer, execute: async () => 'done' });
  const stream = async (signal) => {
    const parts = await llm.chat({ messages, stream: true });
    let text = '';
    for await (const { delta } of parts) {
      if (signal?.aborted) break;
      if (!delta) continue;
      text += delta;
      chunk();
    }
    return text;
  };
  return {
    text: async () => (await llm.chat({ messages })).message.content,
    stream: () => stream(),
    tools: async () => {
      const { newMessages, toolCalls } = await llm.exec({ messages, tools: [record] });
      const { message } = await llm.chat({ messages: [...messages, ...newMessages], tools: [record] });
      const [call] = toolCalls;
      return { called: { name: call.name, arguments: JSON.stringify(call.input) }, said: message.content };
    },
    structured: async () =>
      Answer.parse(JSON.parse((await llm.chat({ messages, responseFormat: Answer })).message.content)),
    cancel: () => cancelled(stream),
  };
}

/** Instructor has structured output only. */
async function instructor() {
  const { default: OpenAI } = await import('openai');
  const { default: Instructor } = await import('@instructor-ai/instructor');
  const { z: z3 } = await import('zod/v3');
  const schema = z3.object({ answer: z3.string() });
  const api = new OpenAI({ baseURL: openAiBase, apiKey: 'none', maxRetries: 0 });
  const messages = [{ role: 'user', content: PROMPT }];
  const ask = (mode) =>
    Instructor({ client: api, mode }).chat.completions.create({
      ...{ model: 'demo', messages, response_model: { schema, name: 'record' }, max_retries: 0 },
    });
  return {
    tools: async () => ({
      called: { name: 'record', arguments: { answer: (await ask('TOOLS')).answer } },
      said: 'Recorded.',
    }),
    structured: async () => Answer.parse(await ask('JSON_SCHEMA')),
  };
}

const CLIENTS = {
  ollama,
  'OpenAI (LlamaIndex)': llamaIndex,
  Instructor: instructor,
  'ChatOllama (LangChain)': async () => {
    const { ChatOllama } = await import('@langchain/ollama');
    return langchain(new ChatOllama({ model: 'demo', baseUrl: base, maxRetries: 0 }));
  },
  'openai (chat)': openai,
  'openai (responses)': responses,
  '@anthropic-ai/sdk': anthropic,
  '@openai/agents': agents,
  '@ai-sdk/openai': async () => {
    const { createOpenAI } = await import('@ai-sdk/openai');
    return aiSdk(createOpenAI({ baseURL: openAiBase, apiKey: 'none' })('demo'));
  },
  '@ai-sdk/anthropic': async () => {
    const { createAnthropic } = await import('@ai-sdk/anthropic');
    return aiSdk(createAnthropic({ baseURL: openAiBase, apiKey: 'none' })('claude-sonnet-4-5'));
  },
  '@ai-sdk/openai-compatible': async () => {
    const { createOpenAICompatible } = await import('@ai-sdk/openai-compatible');
    const provider = createOpenAICompatible({ name: 'rf', baseURL: openAiBase, supportsStructuredOutputs: true });
    return aiSdk(provider('demo'));
  },
  'ChatOpenAI (LangChain)': async () => {
    const { ChatOpenAI } = await import('@langchain/openai');
    return langchain(
      new ChatOpenAI({ model: 'demo', apiKey: 'none', maxRetries: 0, configuration: { baseURL: openAiBase } }),
    );
  },
  'ChatAnthropic (LangChain)': async () => {
    const { ChatAnthropic } = await import('@langchain/anthropic');
    const options = { apiKey: 'none', maxRetries: 0, maxTokens: 600, anthropicApiUrl: base };
    return langchain(new ChatAnthropic({ model: 'claude-sonnet-4-5', ...options }));
  },
};

const features = await CLIENTS[client]();
if (features[feature] === undefined) {
  process.stdout.write(`${JSON.stringify({ missing: true })}\n`);
  process.exit(0);
}
process.stdout.write(`${JSON.stringify({ result: await features[feature]() })}\n`);
process.exit(0);
