// Running text as a drawing, for files: tokens with their tints, broken into lines.

import { measure, rect, write } from '../drawing.js';
import { bits, visible } from '../format.js';
import { pieceOf } from '../pieces.js';

const WIDTH = 640;
const [SIZE, LINE] = [18, 32];

/** @param {any[]} pieces @param {import('../theme.js').Theme} look @param {boolean} isTinted @returns {import('../drawing.js').Drawing} */
export function tokenDrawing(pieces, look, isTinted) {
  let [x, row] = [0, 0];
  const [boxes, texts] = [/** @type {any[]} */ ([]), /** @type {any[]} */ ([])];
  for (const piece of pieces) {
    const weight = piece.isPrompt ? 700 : 400;
    for (const part of pieceOf(piece).split(/(\n)/)) {
      if (part === '\n') {
        [x, row] = [0, row + 1];
        continue;
      }
      const shown = visible(part);
      const width = measure(shown, SIZE, 'serif', weight);
      if (x + width > WIDTH && x > 0) [x, row] = [0, row + 1];
      if (isTinted && piece.logprob !== null && piece.logprob !== undefined) boxes.push(rect(x, row * LINE + 2, width, LINE - 2, look.tint(bits(piece.logprob))));
      texts.push(write(x, row * LINE + 22, shown, look.colours.ink, { size: SIZE, font: 'serif', weight }));
      x += width;
    }
  }
  return { width: WIDTH, height: (row + 1) * LINE + 6, shapes: [...boxes, ...texts] };
}
