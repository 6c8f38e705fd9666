export { attentionTile as attentionTileCombineRotated } from './attention_tile.js';
