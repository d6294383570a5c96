    .section .rodata.ggml_cpu_table, "a", %progbits
    .globl  ggml_cpu_table
    .hidden ggml_cpu_table
    .type   ggml_cpu_table, %object
    .balign 64
ggml_cpu_table:
    .incbin "table.bin"
    .size   ggml_cpu_table, . - ggml_cpu_table

    .globl  ggml_cpu_table_end
    .hidden ggml_cpu_table_end
ggml_cpu_table_end:
    .byte 0

    .section .note.GNU-stack, "", %progbits
