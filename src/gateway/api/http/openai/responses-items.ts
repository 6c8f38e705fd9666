import { parseJson } from '../../../../lib/json/exact-json.js';
import type { ToolCallDelta } from '../../../../shared/generated/rocmforge/v1/inference.js';
import type { NamedEvent } from '../request.js';
import { CUSTOM_INPUT, type ResponsesForm } from './responses-form.js';
import { encodedReasoning } from './responses-input.js';

type Json = Readonly<Record<string, unknown>>;
export type ItemStatus = 'in_progress' | 'completed' | 'incomplete';
/** Writes one event of a stream: its type is its name, too. */
export type WriteEvent = (type: string, members: Json) => void;

/** One output item of a response in the making: it writes its own events. */
interface OutputItem {
  readonly id: string;
  json(status: ItemStatus): Json;
  begin(write: WriteEvent, at: Json): void;
  end(write: WriteEvent, at: Json): void;
}

/** The output of a response, item by item. */
export class OutputItems {
  private readonly items: OutputItem[] = [];
  private readonly done: Json[] = [];
  private open: { readonly key: string; readonly item: OutputItem } | undefined;

  /** @param write is given the events of a stream; a whole answer has none */
  constructor(
    private readonly responseKey: string,
    private readonly form: ResponsesForm,
    private readonly write: WriteEvent = () => undefined,
  ) {}

  /** Items that are whole. */
  get all(): readonly Json[] {
    return this.done;
  }

  reasoning(text: string): void {
    const make = (id: string) => new ReasoningItem(id, this.form);
    this.within('reasoning', 'rs', make, (item) => (item as ReasoningItem).add(text, this.write, this.at));
  }

  text(text: string): void {
    const make = (id: string) => new MessageItem(id);
    this.within('message', 'msg', make, (item) => (item as MessageItem).add(text, this.write, this.at));
  }

  call({ index, id: callId, name, argumentsJson }: ToolCallDelta): void {
    const isCustom = this.form.customTools.includes(name);
    const make = (id: string) => (isCustom ? new CustomCallItem(id, callId, name) : new CallItem(id, callId, name));
    this.within(`call ${index}`, isCustom ? 'ctc' : 'fc', make, (item) => {
      (item as CallItem | CustomCallItem).add(argumentsJson, this.write, this.at);
    });
  }

  /** Ends the item that is open. */
  close(status: ItemStatus = 'completed'): void {
    const { open, at } = this;
    if (open === undefined) return;
    open.item.end(this.write, at);
    const item = open.item.json(status);
    this.write('response.output_item.done', { output_index: at.output_index, item });
    this.done.push(item);
    this.open = undefined;
  }

  /** Index of the open item. */
  private get at(): Json {
    return { item_id: this.open?.item.id, output_index: this.items.length - 1 };
  }

  /** Items follow each other: another one ends the one before. */
  private within(key: string, prefix: string, make: (id: string) => OutputItem, add: (item: OutputItem) => void): void {
    if (this.open?.key !== key) {
      this.close();
      const item = make(`${prefix}_${this.responseKey}_${this.items.length}`);
      this.items.push(item);
      this.open = { key, item };
      this.write('response.output_item.added', { output_index: this.items.length - 1, item: item.json('in_progress') });
      item.begin(this.write, this.at);
    }
    if (this.open !== undefined) add(this.open.item);
  }
}

class MessageItem implements OutputItem {
  private text = '';

  constructor(readonly id: string) {}

  begin(write: WriteEvent, at: Json): void {
    write('response.content_part.added', { ...at, content_index: 0, part: this.part });
  }

  add(delta: string, write: WriteEvent, at: Json): void {
    this.text += delta;
    write('response.output_text.delta', { ...at, content_index: 0, delta, logprobs: [] });
  }

  end(write: WriteEvent, at: Json): void {
    const { text, part } = this;
    write('response.output_text.done', { ...at, content_index: 0, text, logprobs: [] });
    write('response.content_part.done', { ...at, content_index: 0, part });
  }

  json(status: ItemStatus): Json {
    const content = status === 'in_progress' ? [] : [this.part];
    return { id: this.id, type: 'message', status, role: 'assistant', content };
  }

  private get part(): Json {
    return { type: 'output_text', text: this.text, annotations: [], logprobs: [] };
  }
}

/** Reasoning, as its content, or as its summary for those who ask for one: clients show one or the other. */
class ReasoningItem implements OutputItem {
  private text = '';

  constructor(
    readonly id: string,
    private readonly form: Pick<ResponsesForm, 'summarizes' | 'encrypts'>,
  ) {}

  begin(write: WriteEvent, at: Json): void {
    this.writePart('added', write, at);
  }

  add(delta: string, write: WriteEvent, at: Json): void {
    this.text += delta;
    write(`${this.textEvent}.delta`, { ...at, ...this.index, delta });
  }

  end(write: WriteEvent, at: Json): void {
    write(`${this.textEvent}.done`, { ...at, ...this.index, text: this.text });
    this.writePart('done', write, at);
  }

  json(status: ItemStatus): Json {
    const { id, text, form } = this;
    const parts = status === 'in_progress' ? [] : [this.part];
    const shown = form.summarizes ? { summary: parts } : { summary: [], content: parts };
    const encrypted = form.encrypts && { encrypted_content: encodedReasoning(text) };
    return { id, type: 'reasoning', status, ...shown, ...encrypted };
  }

  private writePart(event: 'added' | 'done', write: WriteEvent, at: Json): void {
    const name = this.form.summarizes ? 'response.reasoning_summary_part' : 'response.content_part';
    write(`${name}.${event}`, { ...at, ...this.index, part: this.part });
  }

  private get textEvent(): string {
    return this.form.summarizes ? 'response.reasoning_summary_text' : 'response.reasoning_text';
  }

  private get index(): Json {
    return this.form.summarizes ? { summary_index: 0 } : { content_index: 0 };
  }

  private get part(): Json {
    return { type: this.form.summarizes ? 'summary_text' : 'reasoning_text', text: this.text };
  }
}

class CallItem implements OutputItem {
  private text = '';

  constructor(
    readonly id: string,
    private readonly callId: string,
    private readonly name: string,
  ) {}

  begin(): void {}

  add(delta: string, write: WriteEvent, at: Json): void {
    if (delta === '') return;
    this.text += delta;
    write('response.function_call_arguments.delta', { ...at, delta });
  }

  end(write: WriteEvent, at: Json): void {
    write('response.function_call_arguments.done', { ...at, name: this.name, arguments: this.text });
  }

  json(status: ItemStatus): Json {
    const { id, callId, name, text } = this;
    return { id, type: 'function_call', status, call_id: callId, name, arguments: text };
  }
}

/** A call of a custom tool: its text is one of the JSON's strings, which is whole at its end alone. */
class CustomCallItem implements OutputItem {
  private argumentsJson = '';

  constructor(
    readonly id: string,
    private readonly callId: string,
    private readonly name: string,
  ) {}

  begin(): void {}

  add(delta: string): void {
    this.argumentsJson += delta;
  }

  end(write: WriteEvent, at: Json): void {
    const { input } = this;
    if (input !== '') write('response.custom_tool_call_input.delta', { ...at, delta: input });
    write('response.custom_tool_call_input.done', { ...at, input });
  }

  json(status: ItemStatus): Json {
    const { id, callId, name } = this;
    return { id, type: 'custom_tool_call', status, call_id: callId, name, input: this.input };
  }

  /** The text; where the arguments are no such JSON, what the model wrote. */
  private get input(): string {
    try {
      const value = (parseJson(this.argumentsJson) as Json)[CUSTOM_INPUT];
      return typeof value === 'string' ? value : this.argumentsJson;
    } catch {
      return this.argumentsJson;
    }
  }
}

/** An event as it is sent. */
export const namedEvent = (type: string, sequence: number, members: string): NamedEvent => ({
  name: type,
  data: `{"type":${JSON.stringify(type)},"sequence_number":${sequence},${members}}`,
});
