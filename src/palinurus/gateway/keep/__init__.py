"""What people keep of conversations and for them: links for others, exports, prompts of their own."""
