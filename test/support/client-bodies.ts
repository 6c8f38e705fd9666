import type { EmbeddingKind } from '../../src/gateway/api/http/embeddings/embedding-fields.js';
import type { AnswerKind } from '../../src/gateway/api/http/request.js';

type Json = Readonly<Record<string, unknown>>;

const user = { role: 'user', content: 'q' };
const parameters = { type: 'object', properties: { path: { type: 'string' } }, required: ['path'] };
const tools = [{ type: 'function', function: { name: 'read', description: 'Reads.', parameters, strict: true } }];
const call = { id: 'call_1', type: 'function', function: { name: 'read', arguments: '{"path": "a"}' } };
const ephemeral = { type: 'ephemeral' };

/** Bodies of clients, as captured from them or written in their source; texts are shortened. */
export const CLIENT_BODIES: Readonly<Record<string, readonly [kind: AnswerKind | EmbeddingKind, body: Json]>> = {
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
  'Anthropic SDK, tools': [
    'messages',
    {
      ...{ model: 'm', max_tokens: 8, stop_sequences: ['a'], temperature: 1, top_k: 5, top_p: 0.5 },
      messages: [
        {
          role: 'user',
          content: [{ type: 'text', text: 'q', cache_control: ephemeral, citations: { enabled: false } }],
        },
        {
          role: 'assistant',
          content: [
            { type: 'thinking', thinking: 't', signature: 's' },
            { type: 'tool_use', id: 't', name: 'f', input: { path: 'a' }, caller: { type: 'direct' } },
          ],
        },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't', content: 'A', is_error: false }] },
      ],
      tools: [{ type: 'custom', name: 'f', description: 'd', input_schema: parameters, strict: true }],
      tool_choice: { type: 'tool', name: 'f', disable_parallel_tool_use: true },
      ...{ service_tier: 'auto', inference_geo: 'us' },
    },
  ],
  'OpenAI SDK, responses': [
    'responses',
    {
      ...{ model: 'm', instructions: 's', max_output_tokens: 8, parallel_tool_calls: true, truncation: 'disabled' },
      ...{ store: false, stream: true, temperature: 1, top_p: 1, user: 'u', metadata: { a: 'b' } },
      input: [
        { role: 'developer', content: 's' },
        { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'q' }] },
        { type: 'reasoning', id: 'rs_1', summary: [{ type: 'summary_text', text: 't' }], encrypted_content: 'x' },
        { type: 'function_call', id: 'fc_1', call_id: 'c', name: 'read', arguments: '{}', status: 'completed' },
        { type: 'function_call_output', call_id: 'c', output: [{ type: 'input_text', text: 'A' }] },
        {
          ...{ type: 'message', id: 'msg_1', role: 'assistant', status: 'completed' },
          content: [{ type: 'output_text', text: 'a', annotations: [], logprobs: [] }],
        },
        user,
      ],
      tools: [{ type: 'function', name: 'read', description: 'd', parameters, strict: true }],
      text: { format: { type: 'json_schema', name: 'a', strict: true, schema: parameters }, verbosity: 'low' },
      reasoning: { effort: 'low', summary: 'auto' },
      include: ['reasoning.encrypted_content'],
    },
  ],
  'Codex CLI': [
    'responses',
    {
      ...{ model: 'm', instructions: 's', store: false, stream: true, parallel_tool_calls: false, tool_choice: 'auto' },
      ...{ prompt_cache_key: 'k', client_metadata: { a: 'b' }, include: [], reasoning: { effort: 'medium' } },
      input: [
        { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'q' }] },
        { type: 'custom_tool_call', call_id: 'c', name: 'apply_patch', input: 'x', status: 'completed' },
        { type: 'custom_tool_call_output', call_id: 'c', output: 'A' },
      ],
      tools: [
        { type: 'function', name: 'exec_command', description: 'd', strict: false, parameters },
        {
          ...{ type: 'custom', name: 'apply_patch', description: 'd' },
          format: { type: 'grammar', syntax: 'regex', definition: 'a+' },
        },
        { type: 'web_search', external_web_access: false },
      ],
    },
  ],
  'Agents SDK': [
    'responses',
    {
      ...{ model: 'm', input: 'q', instructions: 's', stream: false, include: [], store: true, text: {} },
      tools: [{ type: 'function', name: 'read', parameters, strict: true }],
      tool_choice: { type: 'function', name: 'read' },
    },
  ],
  'OpenAI SDK, completions': [
    'completion',
    {
      ...{ model: 'm', prompt: ['a', 'b'], max_tokens: 8, n: 1, best_of: 1, echo: false, logprobs: 1, user: 'u' },
      ...{ stop: ['x'], logit_bias: { 5: -100 }, presence_penalty: 0, frequency_penalty: 0, seed: 1 },
    },
  ],
  'llama.vim': [
    'infill',
    {
      ...{ input_prefix: 'a', input_suffix: 'b', prompt: 'c', input_extra: [{ filename: 'f', text: 't', time: 1 }] },
      ...{ n_predict: 8, n_indent: 0, top_k: 40, top_p: 0.9, samplers: ['top_k', 'top_p', 'infill'], stop: ['x'] },
      ...{
        stream: false,
        cache_prompt: true,
        t_max_prompt_ms: 500,
        t_max_predict_ms: 500,
        response_fields: ['content'],
      },
    },
  ],
  'ollama, chat': [
    'ollamaChat',
    {
      ...{ model: 'm', stream: true, think: false, format: '', keep_alive: '5m' },
      messages: [
        { role: 'system', content: 's' },
        { ...user, images: [] },
        { role: 'assistant', content: '', thinking: 't', tool_calls: [{ function: { name: 'read', arguments: {} } }] },
        { role: 'tool', tool_name: 'read', content: 'A' },
      ],
      tools: [{ type: 'function', function: { name: 'read', description: 'd', parameters } }],
      options: { temperature: 0, num_ctx: 2048, num_predict: 8, seed: 1, top_k: 5, top_p: 0.5, stop: ['x'] },
    },
  ],
  'Open WebUI, Ollama': [
    'ollamaChat',
    {
      model: 'm',
      messages: [{ ...user, id: '1' }],
      options: {},
      metadata: { a: 1 },
      format: parameters,
      truncate: true,
    },
  ],
  'ollama, generate': [
    'ollamaGenerate',
    {
      ...{ model: 'm', prompt: 'q', suffix: '', system: 's', template: '', context: [], stream: false, raw: false },
      ...{ images: [], format: 'json', options: { num_predict: 8, mirostat: 0, repeat_last_n: 64 }, keep_alive: 0 },
    },
  ],
  'ollama, embed': [
    'ollamaEmbed',
    { model: 'm', input: ['a', 'b'], truncate: true, options: { num_ctx: 8 }, keep_alive: '5m', dimensions: 2 },
  ],
  'ollama, embeddings': ['ollamaEmbeddings', { model: 'm', prompt: 'a', options: {}, keep_alive: 300 }],
  'OpenAI SDK, embeddings': [
    'embeddings',
    { model: 'm', input: ['a', 'b'], encoding_format: 'base64', dimensions: 2, user: 'u' },
  ],
  'Voyage and Jina': [
    'embeddings',
    { model: 'm', input: 'a', input_type: 'query', task: 'retrieval', late_chunking: false },
  ],
  'llama.cpp, embedding': ['llamaEmbedding', { content: 'a', embd_normalize: 2 }],
  Cohere: ['rerank', { model: 'm', query: 'q', documents: ['a', { text: 'b' }], top_n: 1, return_documents: false }],
  'vLLM, score': ['score', { model: 'm', text_1: 'q', text_2: ['a', 'b'], truncate_prompt_tokens: -1 }],
};
