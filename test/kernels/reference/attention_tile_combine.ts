export { attentionTile as attentionTileCombine } from './attention_tile.js';
