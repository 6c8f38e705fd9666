import { Activity, Menu, SlidersHorizontal } from 'lucide';
import { announcement, changeSettings, current, modelName, storageProblem } from '../chat/chat-store.js';
import { setToken } from '../server/address.js';
import { credentialProblem } from '../server/failures.js';
import { connectionProblem, models, poll, server } from '../server/server-store.js';
import { Chat } from './chat.js';
import { ConversationList } from './conversation-list.js';
import { Icon } from './icon.js';
import { ServerView } from './server-view.js';
import { SettingsPanel } from './settings-panel.js';
import { areSettingsOpen, isListOpen, view } from './view-state.js';

export function App() {
  const isServer = view.value === 'server' && server.value !== undefined;
  return (
    <div class="app">
      <ConversationList />
      <div class="main">
        <Header />
        <Problems />
        <main>{isServer ? <ServerView /> : <Chat />}</main>
      </div>
      {areSettingsOpen.value && !isServer && <SettingsPanel />}
      <div class="visually-hidden" role="status">
        {announcement.value}
      </div>
    </div>
  );
}

function Header() {
  const isServer = view.value === 'server';
  return (
    <header>
      <button
        type="button"
        class="icon only-narrow"
        id="list-button"
        aria-label="Conversations"
        aria-expanded={isListOpen.value}
        onClick={() => {
          isListOpen.value = !isListOpen.value;
          if (isListOpen.value) setTimeout(() => document.getElementById('new-chat')?.focus());
        }}
      >
        <Icon node={Menu} />
      </button>
      <h1>{isServer ? 'Server' : current.value.title}</h1>
      <ModelChoice />
      {server.value !== undefined && (
        <button
          type="button"
          class="icon"
          id="server-view"
          aria-pressed={isServer}
          title="Models, executors and load"
          onClick={() => {
            view.value = isServer ? 'chat' : 'server';
          }}
        >
          <Icon node={Activity} /> <span class="label">Server</span>
        </button>
      )}
      <button
        type="button"
        class="icon"
        id="settings-button"
        aria-expanded={areSettingsOpen.value}
        title="System prompt, sampling, output format, tools"
        onClick={() => {
          areSettingsOpen.value = !areSettingsOpen.value;
        }}
      >
        <Icon node={SlidersHorizontal} /> <span class="label">Settings</span>
      </button>
    </header>
  );
}

/** The served model, or a choice of them. */
function ModelChoice() {
  if (models.value.length < 2) {
    return (
      <bdi id="model" class="model" title={modelName.value}>
        {modelName.value}
      </bdi>
    );
  }
  return (
    <select
      id="model"
      aria-label="Model"
      value={modelName.value}
      onChange={({ currentTarget }) => changeSettings({ model: currentTarget.value })}
    >
      {models.value.map(({ id }) => (
        <option key={id} value={id}>
          {id}
        </option>
      ))}
    </select>
  );
}

function Problems() {
  return (
    <>
      {connectionProblem.value !== '' && (
        <p class="problem" role="alert">
          {connectionProblem.value}
        </p>
      )}
      {storageProblem.value !== '' && <p class="problem">{storageProblem.value}</p>}
      {credentialProblem.value !== '' && <TokenForm />}
    </>
  );
}

/** Asks for a token, if the server requires one or refuses the one that it was given. */
function TokenForm() {
  return (
    <form
      class="problem"
      id="token-form"
      onSubmit={(event) => {
        event.preventDefault();
        const field = event.currentTarget.elements.namedItem('token') as HTMLInputElement;
        setToken(field.value);
        field.value = '';
        // The same token may be valid by now.
        void poll();
      }}
    >
      <p role="alert">{credentialProblem.value}</p>
      <label>
        Token <input name="token" type="password" autocomplete="off" required />
      </label>
      <button type="submit">Use</button>
    </form>
  );
}
