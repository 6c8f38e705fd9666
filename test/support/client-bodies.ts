import type { AnswerKind } from '../../src/gateway/api/http/request.js';

type Json = Readonly<Record<string, unknown>>;

const user = { role: 'user', content: 'q' };
const parameters = { type: 'object', properties: { path: { type: 'string' } }, required: ['path'] };
const tools = [{ type: 'function', function: { name: 'read', description: 'Reads.', parameters, strict: true } }];
const call = { id: 'call_1', type: 'function', function: { name: 'read', arguments: '{"path": "a"}' } };
const ephemeral = { type: 'ephemeral' };

/** Bodies of clients, as captured from them or written in their source; texts are shortened. */
export const CLIENT_BODIES: Readonly<Record<string, readonly [kind: AnswerKind, body: Json]>> = {
  openai: ['chat', { model: 'm', messages: [user], stream: true, stream_options: { include_usage: true } }],
  'openai, structured': [
    'chat',
    {
      ...{ model: 'm', messages: [{ role: 'system', content: 's' }, user], store: true, service_tier: 'flex' },
      response_format: { type: 'json_schema', json_schema: { name: 'a', strict: true, schema: parameters } },
    },
  ],
  'AI SDK': ['chat', { model: 'm', messages: [user], reasoning_effort: 'low', tools, tool_choice: 'auto' }],
  Cline: [
    'chat',
    {
      ...{ model: 'm', messages: [{ role: 'system', content: 's' }, user], temperature: 0, stream: true },
      ...{ stream_options: { include_usage: true }, tools, reasoning_effort: 'medium' },
    },
  ],
  'Roo Code': [
    'chat',
    {
      ...{ model: 'm', stream: true, stream_options: { include_usage: true }, tools, parallel_tool_calls: false },
      messages: [
        { role: 'system', content: [{ type: 'text', text: 's', cache_control: ephemeral }] },
        { role: 'user', content: [{ type: 'text', text: 'q', cache_control: ephemeral }] },
        { role: 'assistant', content: '', tool_calls: [call], reasoning_details: [{ type: 'reasoning.text' }] },
        { role: 'tool', tool_call_id: 'call_1', content: 'A' },
      ],
    },
  ],
  'Open WebUI': [
    'chat',
    {
      ...{ model: 'm', messages: [{ ...user, id: '1', timestamp: 1 }], stream: true, reasoning_effort: 'high' },
      ...{ metadata: { chat_id: 'c' }, session_id: 's', chat_id: 'c', options: {}, keep_alive: '5m' },
    },
  ],
  'lm-eval': ['chat', { model: 'm', messages: [{ ...user, type: 'text' }], max_tokens: 8, temperature: 0, stop: [] }],
  'vLLM bench': [
    'chat',
    {
      ...{ model: 'm', messages: [{ role: 'user', content: [{ type: 'text', text: 'q' }] }], max_completion_tokens: 8 },
      ...{ stream: true, stream_options: { include_usage: true, continuous_usage_stats: true }, ignore_eos: true },
    },
  ],
  'vLLM, guided': [
    'chat',
    { model: 'm', messages: [user], guided_json: parameters, include_reasoning: true, cache_salt: 'x', documents: [] },
  ],
  SillyTavern: [
    'llama',
    {
      ...{ prompt: 'q', n_predict: 8, temperature: 1, top_k: 40, samplers: ['temperature', 'top_k', 'top_p'] },
      ...{ typ_p: 1, dry_multiplier: 0, xtc_probability: 0, repeat_penalty: 1, repeat_last_n: 64, min_keep: 0 },
    },
  ],
  'SillyTavern, chat': [
    'chat',
    {
      ...{ messages: [user], typ_p: 1, dry_multiplier: 0, xtc_probability: 0, repeat_penalty: 1 },
      ...{ reasoning_format: 'auto', samplers: ['top_k', 'temperature'] },
    },
  ],
  OpenRouter: [
    'chat',
    {
      ...{ model: 'm', messages: [user], provider: { order: [] }, usage: { include: true }, verbosity: 'low' },
      reasoning: { effort: 'high', exclude: false },
    },
  ],
  'Text Generation Inference': [
    'chat',
    { model: 'tgi', messages: [user], response_format: { type: 'json', value: parameters }, tool_prompt: 'p' },
  ],
  'histories of others': [
    'chat',
    {
      model: 'm',
      messages: [
        { role: 'user', content: [{ type: 'input_text', text: 'q' }], id: '1' },
        { role: 'assistant', content: 'a', reasoning: 'r', thinking: 't', provider_specific_fields: {}, images: [] },
        {
          role: 'assistant',
          content: [
            { type: 'thinking', thinking: 't' },
            { type: 'output_text', text: 'a' },
          ],
        },
        user,
      ],
      ...{
        functions: [],
        prediction: { type: 'content', content: 'a' },
        prompt_cache_retention: '24h',
        extra_body: {},
      },
    },
  ],
  Continue: ['completion', { model: 'm', prompt: 'q', max_tokens: 8, stop: ['a'], stream: true, suffix: '' }],
  'Claude Code': [
    'messages',
    {
      ...{ model: 'm', max_tokens: 32000, stream: true, metadata: { user_id: 'u' } },
      system: [{ type: 'text', text: 's', cache_control: ephemeral }],
      messages: [
        user,
        { role: 'system', content: 'later' },
        {
          role: 'assistant',
          content: [
            { type: 'redacted_thinking', data: 'x' },
            { type: 'tool_use', id: 't', name: 'Read', input: {} },
          ],
        },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't', content: [{ type: 'text', text: 'A' }] }] },
      ],
      tools: [{ name: 'Read', description: 'd', input_schema: parameters, eager_input_streaming: true }],
      thinking: { type: 'enabled', budget_tokens: 1024, display: 'omitted' },
      context_management: { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] },
      output_config: { effort: 'high' },
    },
  ],
  'Anthropic SDK': [
    'messages',
    {
      ...{ model: 'm', max_tokens: 8, messages: [user], thread: { type: 'create' }, mcp_servers: [] },
      output_config: { format: { type: 'json_schema', schema: parameters } },
      tools: [
        { name: 'f', input_schema: parameters, defer_loading: true, input_examples: [], allowed_callers: ['direct'] },
        { type: 'web_search_20250305', name: 'web_search', max_uses: 1 },
      ],
    },
  ],
};
