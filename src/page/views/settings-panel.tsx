import { X } from 'lucide';
import { useEffect, useRef } from 'preact/hooks';
import { changeSettings, current } from '../chat/chat-store.js';
import { SAMPLING, type SamplingName, type Settings } from '../chat/conversation.js';
import { settingProblem } from '../server/failures.js';
import { Icon } from './icon.js';
import { areSettingsOpen } from './view-state.js';

/** Settings of the conversation. They apply from the next answer on. */
export function SettingsPanel() {
  const panel = useRef<HTMLElement>(null);
  useEffect(() => panel.current?.querySelector('textarea')?.focus(), []);
  const { system, thinking, logprobs } = current.value.settings;
  const close = () => {
    areSettingsOpen.value = false;
    document.getElementById('settings-button')?.focus();
  };
  return (
    <aside
      class="settings"
      aria-label="Settings"
      ref={panel}
      onKeyDown={({ key }) => {
        if (key === 'Escape') close();
      }}
    >
      <div class="settings-head">
        <h2>Settings</h2>
        <button type="button" class="icon" aria-label="Close settings" onClick={close}>
          <Icon node={X} />
        </button>
      </div>
      <p class="hint">Changes are kept at once, and apply from the next answer of this conversation on.</p>
      <label>
        System prompt
        <textarea
          id="system"
          rows={4}
          dir="auto"
          value={system}
          onInput={({ currentTarget }) => changeSettings({ system: currentTarget.value })}
        />
      </label>
      <Sampling />
      <Constraint />
      <Tools />
      <label>
        Thinking
        <select
          id="thinking"
          value={thinking}
          onChange={({ currentTarget }) => changeSettings({ thinking: currentTarget.value as Settings['thinking'] })}
        >
          <option value="">Model’s default</option>
          <option value="on">On</option>
          <option value="off">Off</option>
        </select>
      </label>
      <label class="check">
        <input
          type="checkbox"
          id="logprobs"
          checked={logprobs}
          onChange={({ currentTarget }) => changeSettings({ logprobs: currentTarget.checked })}
        />
        Log probabilities
      </label>
    </aside>
  );
}

function Sampling() {
  const { sampling } = current.value.settings;
  const change = (name: SamplingName, value: string) => changeSettings({ sampling: { ...sampling, [name]: value } });
  return (
    <fieldset>
      <legend>Sampling</legend>
      <p class="hint">An empty field has the server’s default.</p>
      <div class="grid">
        {SAMPLING.map(([name, label]) => (
          // biome-ignore lint/a11y/noLabelWithoutControl: it contains one of two fields
          <label key={name} class={name === 'stop' ? 'wide' : ''}>
            {label}
            {name === 'stop' ? (
              <textarea
                id={name}
                rows={2}
                placeholder="One per line"
                value={sampling[name] ?? ''}
                onInput={({ currentTarget }) => change(name, currentTarget.value)}
              />
            ) : (
              <input
                id={name}
                inputMode="decimal"
                autocomplete="off"
                value={sampling[name] ?? ''}
                onInput={({ currentTarget }) => change(name, currentTarget.value)}
              />
            )}
          </label>
        ))}
      </div>
      <Problem setting="sampling" />
    </fieldset>
  );
}

function Constraint() {
  const { constraint } = current.value.settings;
  return (
    <fieldset>
      <legend>Output format</legend>
      <label>
        Constraint
        <select
          id="constraint-kind"
          value={constraint.kind}
          onChange={({ currentTarget }) =>
            changeSettings({ constraint: { ...constraint, kind: currentTarget.value as typeof constraint.kind } })
          }
        >
          <option value="">None</option>
          <option value="schema">JSON schema</option>
          <option value="grammar">Grammar (GBNF)</option>
        </select>
      </label>
      {constraint.kind !== '' && (
        <label>
          {constraint.kind === 'schema' ? 'Schema' : 'Grammar'}
          <textarea
            id="constraint"
            class="source"
            rows={8}
            spellcheck={false}
            placeholder={constraint.kind === 'schema' ? '{"type": "object"}' : 'root ::= "yes" | "no"'}
            value={constraint.text}
            onInput={({ currentTarget }) => {
              settingProblem.value = undefined;
              changeSettings({ constraint: { ...constraint, text: currentTarget.value } });
            }}
          />
        </label>
      )}
      <Problem setting="constraint" />
    </fieldset>
  );
}

function Tools() {
  return (
    <fieldset>
      <legend>Tools</legend>
      <label>
        Tools as a JSON array, in OpenAI’s form
        <textarea
          id="tools"
          class="source"
          rows={4}
          spellcheck={false}
          placeholder='[{"type": "function", "function": {"name": "…", "parameters": {…}}}]'
          value={current.value.settings.tools}
          onInput={({ currentTarget }) => {
            settingProblem.value = undefined;
            changeSettings({ tools: currentTarget.value });
          }}
        />
      </label>
      <Problem setting="tools" />
    </fieldset>
  );
}

/** The last error about a setting. */
function Problem({ setting }: { readonly setting: string }) {
  const problem = settingProblem.value;
  if (problem?.setting !== setting) return null;
  return (
    <p class="error" role="alert">
      {problem.message}
    </p>
  );
}
