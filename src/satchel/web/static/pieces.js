// The place of each token in a text. Tokens of word tokenizers do not contain the white space between words.

/**
 * The tokens, each with `piece`: the part of the text up to its end that does not belong to a token before it.
 * @param {string} text
 * @param {any[]} tokens
 * @returns {any[]}
 */
export function placeTokens(text, tokens) {
  let end = 0;
  const placed = tokens.map((token, index) => {
    let found = token.role === null || token.role === undefined ? text.indexOf(token.text, end) : -1;
    if (found > end && text.slice(end, found).trim()) found = -1; // another place where this text occurs
    if (found < 0 && token.role === 'unknown') {
      const next = tokens[index + 1];
      const after = next ? text.indexOf(next.text, end + 1) : text.length;
      const word = /^\s*\S+/.exec(text.slice(end, after < 0 ? undefined : after));
      const piece = word ? word[0] : '';
      end += piece.length;
      return { ...token, piece };
    }
    if (found < 0) return { ...token, piece: token.role ? '' : token.text, isLost: true };
    const piece = text.slice(end, found + token.text.length);
    end = found + token.text.length;
    return { ...token, piece };
  });
  // A tokenizer that changes the text: the tokens are shown as they are.
  return placed.some((each) => each.isLost && !each.role) ? tokens.map((token) => ({ ...token, piece: token.text })) : placed;
}

/** The text of a token in running text. @param {any} token @returns {string} */
export const pieceOf = (token) => token.piece ?? token.text;
