export { attentionTile as attentionLarge } from './attention_tile.js';
