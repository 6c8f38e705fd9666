import { signal } from '@preact/signals';

/** The view that is shown. */
export const view = signal<'chat' | 'server'>('chat');

/** Panels that are open; on narrow screens the list of conversations covers the chat. */
export const isListOpen = signal(false);
export const areSettingsOpen = signal(false);
