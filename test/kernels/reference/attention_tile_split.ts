export { attentionTile as attentionTileSplit } from './attention_tile.js';
