export function signal<T>(value: T): { value: T };
export function computed<T>(compute: () => T): { readonly value: T };
export function effect(run: () => void | (() => void)): () => void;
export function batch<T>(run: () => T): T;
export function untracked<T>(run: () => T): T;
