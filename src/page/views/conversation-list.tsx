import { Download, Plus, Trash2, Upload } from 'lucide';
import { useState } from 'preact/hooks';
import {
  conversations,
  current,
  deleteConversation,
  exportConversations,
  importConversations,
  openConversation,
  startConversation,
} from '../chat/chat-store.js';
import { version } from '../server/server-store.js';
import { Icon } from './icon.js';
import { isListOpen, view } from './view-state.js';

/** All conversations, with export and import. */
export function ConversationList() {
  const [notice, setNotice] = useState('');
  const close = () => {
    view.value = 'chat';
    isListOpen.value = false;
  };
  return (
    <nav
      class={isListOpen.value ? 'conversations is-open' : 'conversations'}
      aria-label="Conversations"
      onKeyDown={({ key }) => {
        if (key !== 'Escape' || !isListOpen.value) return;
        isListOpen.value = false;
        document.getElementById('list-button')?.focus();
      }}
    >
      <button
        type="button"
        class="wide"
        id="new-chat"
        onClick={() => {
          startConversation();
          close();
          document.getElementById('prompt')?.focus();
        }}
      >
        <Icon node={Plus} /> New chat
      </button>
      <ul>
        {conversations.value.map(({ id, title }) => (
          <li key={id} class={id === current.value.id ? 'is-current' : ''}>
            <button
              type="button"
              class="title"
              aria-current={id === current.value.id ? 'true' : undefined}
              onClick={() => {
                void openConversation(id);
                close();
              }}
            >
              <bdi>{title}</bdi>
            </button>
            <DeleteButton id={id} title={title} />
          </li>
        ))}
      </ul>
      <div class="transfer">
        <button type="button" id="export" onClick={() => void download()}>
          <Icon node={Download} /> Export
        </button>
        <label class="button">
          <Icon node={Upload} /> Import
          <input
            type="file"
            id="import"
            class="visually-hidden"
            accept="application/json,.json"
            onChange={async ({ currentTarget }) => {
              const [file] = currentTarget.files ?? [];
              currentTarget.value = '';
              if (file !== undefined) setNotice(await importText(await file.text()));
            }}
          />
        </label>
      </div>
      {notice !== '' && <p role="status">{notice}</p>}
      <p class="version">ROCmForge {version.value}</p>
    </nav>
  );
}

/** A button that must be pressed twice. */
function DeleteButton({ id, title }: { readonly id: string; readonly title: string }) {
  const [isArmed, setArmed] = useState(false);
  return (
    <button
      type="button"
      class={isArmed ? 'icon small danger' : 'icon small'}
      aria-label={isArmed ? `Confirm: delete ${title}` : `Delete ${title}`}
      title={isArmed ? 'Press again to delete' : 'Delete'}
      onBlur={() => setArmed(false)}
      onClick={() => {
        if (isArmed) {
          void deleteConversation(id);
          // The button goes, and the focus with it.
          document.getElementById('new-chat')?.focus();
        }
        setArmed(!isArmed);
      }}
    >
      <Icon node={Trash2} />
    </button>
  );
}

async function importText(text: string): Promise<string> {
  try {
    const count = await importConversations(text);
    return `${count} ${count === 1 ? 'conversation' : 'conversations'} imported.`;
  } catch (error) {
    return `The file cannot be imported: ${(error as Error).message}`;
  }
}

async function download(): Promise<void> {
  const url = URL.createObjectURL(new Blob([await exportConversations()], { type: 'application/json' }));
  const link = document.createElement('a');
  link.href = url;
  link.download = 'rocmforge-conversations.json';
  link.click();
  // After the download has begun.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
