// GEMM epilogue: none, results are only stored
//
// In kernels with an epilogue this file is replaced by generated text, which defines
//   EPILOGUE                          for the preprocessor
//   Epilogue                          a struct of arguments, the member `epilogue`
//   epilogue(args, i, product)        takes results 4 * i to 4 * i + 3 of the product,
//                                     in row-major order, and stores what becomes of them
// and, if it reads operands in whole vectors,
//   EPILOGUE_WORDS                    for the preprocessor
//   EpilogueWords                     a struct of what is loaded of them
//   epilogue_words(args, i)           loads it
//   epilogue(args, i, product, words) is as above of what was loaded before
// With ROUNDED results of a smaller dtype are handed on as they would be stored.
// Source: framework/codegen/glsl/epilogue.py
