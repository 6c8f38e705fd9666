// The same attention, summed in another order.
export { attentionEncoder as attentionEncoderTile } from './attention_encoder.js';
